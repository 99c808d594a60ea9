// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/file_system.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "base/path.h"

namespace ply::vfs {

FileSystem::FileSystem(rt::Loop& loop, std::unique_ptr<merge::Tree> tree, Options options, Logger& log)
    : loop_(loop),
      tree_(std::move(tree)),
      options_(std::move(options)),
      log_(log),
      inodes_(tree_->first().id()),
      moved_(loop) {}

FileSystem::~FileSystem() {
  assert(handles_.empty());
}

Result<NodePtr> FileSystem::node_of(NodeId id) const {
  NodePtr node = inodes_.find(id);
  if (!node) return Errc::Stale;
  return node;
}

Result<OpenHandle*> FileSystem::handle_of(HandleId id) const {
  const auto found = handles_.find(id);
  if (found == handles_.end()) return Errc::BadHandle;
  return found->second.get();
}

Result<FileSystem::Place> FileSystem::place_of(NodeId directory, const std::string& name) const {
  PLY_TRY(node, node_of(directory));
  if (name.size() > kNameMax) return Errc::NameTooLong;
  auto path = inodes_.path(*node, name);
  if (!path) return Errc::NotFound;  // the directory was removed: nothing can stand in it
  return Place{node, std::move(*path)};
}

FileSystem::Mark::Mark(FileSystem& files, std::multiset<std::string>& set, std::vector<std::string> paths)
    : files_(files), set_(set), paths_(std::move(paths)) {
  set_.insert(paths_.begin(), paths_.end());
}

FileSystem::Mark::~Mark() {
  for (const std::string& path : paths_) set_.erase(set_.find(path));
  files_.moved_.wake_all();
}

rt::Task<void> FileSystem::wait_while_opening(std::vector<std::string> paths) {
  for (const std::string& path : paths)
    while (opening_.contains(path)) co_await moved_.wait();
}

rt::Task<void> FileSystem::wait_while_moving(std::string path) {
  while (moving_.contains(path)) co_await moved_.wait();
}

// --- what the kernel is told ---

rt::Task<Status> FileSystem::attach(HandleId id) {
  PLY_CO_TRY(handle, handle_of(id));
  if (handle->file->is_attached()) co_return Status();
  const NodePtr node = handle->node;
  const auto path = inodes_.path(*node);
  if (!path) co_return Errc::Stale;
  co_await wait_while_moving(*path);
  PLY_CO_TRY(again, handle_of(id));
  if (inodes_.path(*node) != path) co_return Errc::Stale;
  const Mark opening(*this, opening_, std::vector<std::string>(1, *path));
  co_return co_await again->file->attach();
}

rt::Task<void> FileSystem::attach_all(NodePtr node) {
  for (std::size_t i = 0; i < node->open.size(); ++i) {
    const HandleId id = node->open[i]->id;
    Status attached = co_await attach(id);
    if (!attached) log_.debug("open file loses its name without a handle: {}", attached.error().message());
  }
}

void FileSystem::tell_paths() {
  for (const auto& [id, handle] : handles_) {
    if (handle->file->is_pending()) continue;
    handle->file->moved(inodes_.path(*handle->node));
    if (handle->page_writer) handle->page_writer->moved(inodes_.path(*handle->node));
  }
}

bool FileSystem::is_dirty(const Node& node) {
  return std::any_of(node.open.begin(), node.open.end(), [](const OpenHandle* handle) {
    return handle->file->is_dirty() || (handle->page_writer && handle->page_writer->is_dirty());
  });
}

std::uint64_t FileSystem::dirty_end(const Node& node) {
  std::uint64_t end = 0;
  for (const OpenHandle* handle : node.open) {
    end = std::max(end, handle->file->dirty_end());
    if (handle->page_writer) end = std::max(end, handle->page_writer->dirty_end());
  }
  return end;
}

bool FileSystem::overlaps_dirty(const Node& node, std::uint64_t offset, std::uint64_t size,
                                const branch::OpenFile* except) {
  for (const OpenHandle* handle : node.open)
    for (const branch::OpenFile* file : {handle->file.get(), handle->page_writer.get()})
      if (file != nullptr && file != except && file->overlaps(offset, size)) return true;
  return false;
}

bool FileSystem::is_before_dirty(const Node& node, std::uint64_t offset, std::uint64_t size) {
  if (dirty_end(node) <= offset) return false;
  const auto path = inodes_.path(node);
  const auto known = path ? branch_at(*path).known(*path) : std::nullopt;
  return !known || !*known || (*known)->attr.size < offset + size;
}

void FileSystem::note_change(Node& node) {
  node.ctime = std::max(node.ctime, loop_.wall_seconds());
}

void FileSystem::forget_attributes(const Node& node) {
  for (const Node::Name& name : node.names) {
    const auto path = inodes_.path(*name.parent, name.name);
    if (path) branch_at(*path).changed(*path);
  }
}

void FileSystem::size_was_set(const Node& node) {
  for (const OpenHandle* handle : node.open)
    for (branch::OpenFile* file : {handle->file.get(), handle->page_writer.get()})
      if (file != nullptr) file->size_was_set();
}

void FileSystem::tell_other_handles(const Node& node, const branch::OpenFile& writer, Range range) {
  for (const OpenHandle* handle : node.open)
    for (branch::OpenFile* file : {handle->file.get(), handle->page_writer.get()})
      if (file != nullptr) file->changed_elsewhere(writer, range);
}

void FileSystem::written_behind(Node& node, const branch::OpenFile& writer, Range range) {
  forget_attributes(node);
  tell_other_handles(node, writer, range);
}

FileStat FileSystem::present(Node& node, const Attr& attr) {
  node.base = attr;
  node.base.size = std::max(attr.size, dirty_end(node));
  FileStat out;
  out.ino = node.ino;
  out.attr = attr;
  if (attr.type == FileType::Unknown) {
    // A server that tells no permissions: what sshfs shows then.
    out.attr.type = FileType::Regular;
    out.attr.mode = 0777;
  }
  if (is_dirty(node)) {
    out.attr.size = node.base.size;
    out.attr.mtime = std::max(attr.mtime, loop_.wall_seconds());
    for (const OpenHandle* handle : node.open)
      if (const auto time = handle->file->time_to_set()) out.attr.mtime = *time;
  }
  // SFTP v3 tells no link count but in listings; our own names are the least there are.
  const auto names = static_cast<std::uint32_t>(node.names.size());
  if (node.is_removed() && attr.is_regular()) out.attr.nlink = 0;
  else out.attr.nlink = std::max({attr.nlink, names, 1u});
  node.ctime = std::max(node.ctime, out.attr.mtime);
  out.ctime = node.ctime;
  if (options_.uid) out.attr.uid = *options_.uid;
  if (options_.gid) out.attr.gid = *options_.gid;
  if (options_.umask) out.attr.mode = 0777 & ~*options_.umask;
  return out;
}

AttrReply FileSystem::attr_reply(Node& node, const Attr& attr, rt::Duration validity) {
  AttrReply reply;
  reply.stat = present(node, attr);
  // Size and times of a file that is being written are ours only until the next acknowledgement.
  reply.timeout = options_.attr_timeout.value_or(is_dirty(node) ? rt::Duration::zero() : validity);
  return reply;
}

EntryReply FileSystem::entry_reply(const NodePtr& node, const Attr& attr, rt::Duration validity) {
  const AttrReply attributes = attr_reply(*node, attr, validity);
  EntryReply reply;
  reply.node = node->id;
  reply.stat = attributes.stat;
  reply.attr_timeout = attributes.timeout;
  reply.entry_timeout = options_.entry_timeout.value_or(validity);
  ++node->lookups;
  return reply;
}

// --- writes under way ---

rt::Task<void> FileSystem::drain(NodePtr node) {
  // By index, and looked at anew after each wait: handles come and go meanwhile.
  for (std::size_t i = 0; i < node->open.size(); ++i) {
    OpenHandle* const handle = node->open[i];
    if (handle->page_writer && handle->page_writer->is_dirty()) co_await handle->page_writer->drain();
    if (i < node->open.size() && node->open[i] == handle && handle->file->is_dirty()) co_await handle->file->drain();
  }
  collect_failures(*node);
}

/// A failure of any writer of the file is told to each of its descriptors, once.
void FileSystem::collect_failures(Node& node) {
  for (OpenHandle* const source : node.open) {
    for (branch::OpenFile* const file : {source->file.get(), source->page_writer.get()}) {
      if (file == nullptr) continue;
      const auto failure = file->take_failure();
      if (!failure) continue;
      for (OpenHandle* const handle : node.open)
        if (!handle->failure && handle->file->mode().write) handle->failure = failure->clone();
    }
  }
}

Status FileSystem::take_failure(OpenHandle& handle) {
  auto failure = std::exchange(handle.failure, std::nullopt);
  if (!failure) return {};
  return std::move(*failure);
}

std::vector<std::string> FileSystem::unsent() {
  std::set<std::string> paths;
  for (const auto& [id, handle] : handles_)
    if (is_dirty(*handle->node)) paths.insert(inodes_.path(*handle->node).value_or("(a removed file)"));
  return std::vector<std::string>(paths.begin(), paths.end());
}

rt::Task<std::vector<Error>> FileSystem::flush_all() {
  std::vector<NodePtr> nodes;
  for (const auto& [id, handle] : handles_)
    if (is_dirty(*handle->node) && std::find(nodes.begin(), nodes.end(), handle->node) == nodes.end())
      nodes.push_back(handle->node);
  for (const NodePtr& node : nodes) co_await drain(node);
  std::vector<Error> failures;
  for (const auto& [id, handle] : handles_) {
    Status status = take_failure(*handle);
    if (!status) failures.push_back(std::move(status).error());
  }
  co_return std::move(failures);
}

rt::Task<std::vector<Error>> FileSystem::shut_down() {
  std::vector<Error> failures = co_await flush_all();
  while (!handles_.empty()) {
    const HandleId next = handles_.begin()->first;
    co_await release(next);
  }
  directories_.clear();
  co_await tree_->shut_down();
  co_return std::move(failures);
}

}  // namespace ply::vfs
