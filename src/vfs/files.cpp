// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <limits>

#include "base/path.h"
#include "vfs/file_system.h"

namespace ply::vfs {

namespace {

store::OpenMode open_mode(const OpenFlags& flags) {
  store::OpenMode mode;
  mode.read = flags.read;
  mode.write = flags.write;
  mode.append = flags.append && flags.write;
  mode.truncate = flags.truncate;
  return mode;
}

}  // namespace

OpenReply FileSystem::register_handle(const NodePtr& node, branch::Branch::Opened opened, OpenFlags flags) {
  auto handle = std::make_unique<OpenHandle>();
  handle->id = next_handle_++;
  handle->node = node;
  handle->file = std::move(opened.file);
  // Handles go before their nodes, and the file system after both.
  handle->file->on_acknowledged(
      [this, written = node.get(), file = handle->file.get()](Range range) { written_behind(*written, *file, range); });
  node->open.push_back(handle.get());
  node->base = opened.attr;
  node->base.size = std::max(opened.attr.size, dirty_end(*node));

  OpenReply reply;
  reply.handle = handle->id;
  const bool same_content = node->pages == handle->file->content_generation();
  node->pages = handle->file->content_generation();
  reply.keep_page_cache = options_.page_cache == PageCache::Keep ||
                          (options_.page_cache == PageCache::Auto && same_content && !flags.truncate);
  // Files of size 0 that have content (/proc on the server) are read to their end, past the kernel's idea of it. An
  // empty file that is opened for writing too may be mapped later, which direct I/O would forbid. One that is open
  // without a handle was read, and is empty.
  const bool looks_empty = opened.attr.size == 0 && !flags.write && !is_dirty(*node) && handle->file->is_attached();
  reply.bypass_page_cache = options_.page_cache == PageCache::Bypass || looks_empty;
  handle->bypasses_page_cache = reply.bypass_page_cache;
  handles_.emplace(handle->id, std::move(handle));
  return reply;
}

rt::Task<Result<OpenReply>> FileSystem::open(NodeId id, OpenFlags flags) {
  PLY_CO_TRY(node, node_of(id));
  // What is written here and is not on the server can't be opened there, nor read.
  if (is_dirty(*node)) co_await drain(node);
  const auto path = inodes_.path(*node);
  if (!path) co_return Errc::Stale;
  co_await wait_while_moving(*path);
  if (inodes_.path(*node) != path) co_return Errc::Stale;  // renamed while we waited: the kernel looks again
  branch::Branch& branch = branch_at(*path);
  const Mark opening(*this, opening_, std::vector<std::string>(1, *path));
  auto result = co_await branch.open(*path, open_mode(flags));
  // A directory above was renamed meanwhile: the path was right when it was sent.
  if (!result && inodes_.path(*node) != path) co_return Errc::Stale;
  if (!result) co_return std::move(result).error();
  branch::Branch::Opened& opened = *result;
  // The name can have gone to another file on the server. The kernel looks again and finds that.
  const bool replaced = opened.attr.type != node->type && opened.attr.type != FileType::Unknown;
  if (replaced && !opened.attr.is_symlink()) {
    Status closed = co_await opened.file->close();
    (void)closed;
    co_return Errc::Stale;
  }
  if (flags.truncate) {
    note_change(*node);
    size_was_set(*node);
  }
  co_return register_handle(node, std::move(opened), flags);
}

rt::Task<Result<CreateReply>> FileSystem::create(NodeId directory, std::string name, std::uint32_t mode,
                                                 OpenFlags flags, Caller caller) {
  PLY_CO_TRY(place, place_of(directory, name));
  const store::NewNode wanted = co_await new_node(place, mode, caller, FileType::Regular);
  branch::Branch& branch = branch_at(place.path);
  const store::OpenMode how = open_mode(flags);
  const auto creation = flags.exclusive ? branch::Branch::Creation::Exclusive : branch::Branch::Creation::Shared;
  auto opened = co_await branch.create(place.path, how, wanted, creation);
  if (opened.failed_with(Errc::Exists) && !flags.exclusive)
    co_return co_await open_existing(place, std::move(name), flags);
  if (!opened) co_return std::move(opened).error();

  inodes_.detach(place.directory, name);  // whatever had the name before is gone
  const NodePtr node = inodes_.adopt(place.directory, name, FileType::Regular);
  note_change(*place.directory);
  branch.touched(std::string(parent_of(place.path)));
  CreateReply reply;
  const Attr attr = opened->attr;
  reply.open = register_handle(node, std::move(*opened), flags);
  const auto known = branch.known(place.path);
  const rt::Duration validity = known && *known ? (*known)->validity : rt::Duration::zero();
  reply.entry = entry_reply(node, attr, validity);
  co_return reply;
}

/// The name appeared on the server after the kernel had looked for it.
rt::Task<Result<CreateReply>> FileSystem::open_existing(Place place, std::string name, OpenFlags flags) {
  branch::Branch& branch = branch_at(place.path);
  branch.changed(place.path);
  PLY_CO_TRY(known, co_await branch.stat(place.path));
  if (known.attr.is_directory()) co_return Errc::IsDirectory;
  // A link must be followed by the kernel, which does that when told that what it knew is stale.
  if (!known.attr.is_regular() && known.attr.type != FileType::Unknown) co_return Errc::Stale;
  CreateReply reply;
  const NodePtr node = inodes_.adopt(place.directory, name, known.attr.type);
  const NodeId id = node->id;
  reply.entry = entry_reply(node, known.attr, known.validity);
  auto opened = co_await open(id, flags);
  if (!opened) {
    inodes_.forget(id, 1);
    co_return std::move(opened).error();
  }
  reply.open = *opened;
  reply.entry.stat = present(*node, node->base);
  co_return reply;
}

rt::Task<Result<Slices>> FileSystem::read(HandleId id, std::uint64_t offset, std::size_t size) {
  PLY_CO_TRY(first, handle_of(id));
  const NodePtr node = first->node;
  if (overlaps_dirty(*node, offset, size) || is_before_dirty(*node, offset, size)) co_await drain(node);
  PLY_CO_TRY(handle, handle_of(id));
  if (handle->bypasses_page_cache) {
    PLY_CO_CHECK(attached, co_await attach(id));
    PLY_CO_TRY(direct, handle_of(id));
    co_return co_await direct->file->read_uncached(offset, size);
  }
  const auto path = inodes_.path(*node);
  Range asked{offset, offset + size};
  std::uint64_t end = std::max(node->base.size, asked.to);
  const auto known = path ? branch_at(*path).known(*path) : std::nullopt;
  if (known && *known) {
    handle->file->check_content((*known)->attr);
    // The kernel asks for whole pages, but believes the size that it was told: asking the server for no more spares the
    // question whether the file really ends there.
    end = std::max((*known)->attr.size, dirty_end(*node));
    asked.to = std::min(asked.to, end);
    if (asked.empty()) co_return Slices();
  }
  if (!handle->file->covers(asked)) {
    PLY_CO_CHECK(attached, co_await attach(id));
  }
  PLY_CO_TRY(ready, handle_of(id));
  co_return co_await ready->file->read(asked, end);
}

rt::Task<Result<branch::OpenFile*>> FileSystem::writer_for(OpenHandle* handle, WriteOrigin origin) {
  const bool misplaced = origin == WriteOrigin::PageCache && handle->file->mode().append;
  if (!misplaced) co_return handle->file.get();
  if (!handle->page_writer) {
    const HandleId id = handle->id;
    const auto path = inodes_.path(*handle->node);
    if (!path) co_return Error(Errc::Io, "no handle for a removed file's pages");
    store::OpenMode mode;
    mode.write = true;
    PLY_CO_TRY(opened, co_await branch_at(*path).open(*path, mode));
    PLY_CO_CHECK(attached, co_await opened.file->attach());
    PLY_CO_TRY(again, handle_of(id));
    if (again->page_writer) {
      Status closed = co_await opened.file->close();
      (void)closed;
    } else {
      again->page_writer = std::move(opened.file);
      again->page_writer->on_acknowledged([this, written = again->node.get(), file = again->page_writer.get()](
                                              Range range) { written_behind(*written, *file, range); });
    }
    co_return again->page_writer.get();
  }
  co_return handle->page_writer.get();
}

rt::Task<Status> FileSystem::write(HandleId id, std::uint64_t offset, Buffer data, WriteOrigin origin) {
  PLY_CO_TRY(first, handle_of(id));
  collect_failures(*first->node);
  PLY_CO_CHECK(earlier, take_failure(*first));
  if (!first->file->can_write_now()) {
    PLY_CO_CHECK(attached, co_await attach(id));
  }
  PLY_CO_TRY(handle, handle_of(id));
  PLY_CO_TRY(writer, co_await writer_for(handle, origin));
  const NodePtr node = handle->node;
  // Each descriptor sends its own writes in order; what another has not sent yet must not land on top of these later.
  // Where appended data lands is not known, so it meets everything.
  const bool appends = writer->mode().append;
  const std::uint64_t from = appends ? 0 : offset;
  const std::uint64_t length = appends ? std::numeric_limits<std::uint64_t>::max() : data.size();
  if (overlaps_dirty(*node, from, length, writer)) co_await drain(node);
  node->base.size = std::max(node->base.size, offset + data.size());
  forget_attributes(*node);
  tell_other_handles(*node, *writer, Range{appends ? 0 : offset, appends ? length : offset + data.size()});
  Status written = co_await writer->write(offset, std::move(data));
  note_change(*node);
  if (!written) {
    // Told here: not again at the next call of the same descriptor.
    const auto still = handle_of(id);
    if (still) {
      collect_failures(*node);
      Status told = take_failure(**still);
      (void)told;
    }
  }
  co_return std::move(written);
}

rt::Task<Status> FileSystem::flush(HandleId id) {
  PLY_CO_TRY(handle, handle_of(id));
  const NodePtr node = handle->node;
  if (is_dirty(*node)) co_await drain(node);
  collect_failures(*node);
  PLY_CO_TRY(again, handle_of(id));
  co_return take_failure(*again);
}

rt::Task<Status> FileSystem::sync(HandleId id) {
  PLY_CO_CHECK(attached, co_await attach(id));
  PLY_CO_CHECK(flushed, co_await flush(id));
  PLY_CO_TRY(handle, handle_of(id));
  Status synced = co_await handle->file->sync();
  // As far as the server can tell, acknowledged is all there is.
  if (synced.failed_with(Errc::Unsupported)) co_return Status();
  co_return std::move(synced);
}

void FileSystem::close_failed(const OpenHandle& handle, const Error& why) {
  const auto path = inodes_.path(*handle.node);
  log_.problem("data written to {} did not reach the server: {}", path.value_or("(a removed file)"), why.message());
}

rt::Task<void> FileSystem::release(HandleId id) {
  const auto found = handles_.find(id);
  if (found == handles_.end()) co_return;
  const NodePtr node = found->second->node;
  // What was written after the last close(2), through a mapping for example.
  if (is_dirty(*node)) co_await drain(node);
  collect_failures(*node);
  const auto again = handles_.find(id);
  if (again == handles_.end()) co_return;
  const std::unique_ptr<OpenHandle> handle = std::move(again->second);
  handles_.erase(again);
  std::erase(node->open, handle.get());
  Status closed = co_await handle->file->close();
  if (handle->page_writer) {
    Status page_closed = co_await handle->page_writer->close();
    if (closed && !page_closed) closed = std::move(page_closed);
  }
  Status unreported = take_failure(*handle);
  if (!unreported) close_failed(*handle, unreported.error());
  else if (!closed && handle->file->mode().write && !closed.failed_with(Errc::ConnectionLost))
    close_failed(*handle, closed.error());
  inodes_.drop_if_unused(node);
}

rt::Task<Result<std::uint64_t>> FileSystem::copy_range(HandleId from, std::uint64_t from_offset, HandleId to,
                                                       std::uint64_t to_offset, std::uint64_t length) {
  PLY_CO_TRY(first_source, handle_of(from));
  PLY_CO_TRY(first_target, handle_of(to));
  if (first_source->node == first_target->node) co_return Errc::Unsupported;  // copy-data refuses one file
  const NodePtr source_node = first_source->node;
  const NodePtr target_node = first_target->node;
  co_await drain(source_node);
  co_await drain(target_node);
  PLY_CO_CHECK(source_attached, co_await attach(from));
  PLY_CO_CHECK(target_attached, co_await attach(to));
  PLY_CO_TRY(source, handle_of(from));
  PLY_CO_TRY(target, handle_of(to));
  PLY_CO_CHECK(earlier, take_failure(*target));
  if (!source->file->mode().read || !target->file->mode().write) co_return Errc::BadHandle;
  branch::OpenFile* const writer = target->file.get();
  branch::OpenFile* const reader = source->file.get();
  auto copied = co_await writer->copy_from(*reader, from_offset, length, to_offset);
  note_change(*target_node);
  const auto path = inodes_.path(*target_node);
  if (path) branch_at(*path).changed(*path);
  co_return std::move(copied);
}

/// The server does not tell where a file has holes: all of it is data.
rt::Task<Result<std::uint64_t>> FileSystem::seek(HandleId id, std::uint64_t offset, Seek what) {
  PLY_CO_TRY(handle, handle_of(id));
  const NodePtr node = handle->node;
  PLY_CO_TRY(known, co_await current_attr(node));
  const std::uint64_t size = present(*node, known.attr).attr.size;
  if (offset >= size) co_return Errc::NoSuchOffset;
  co_return what == Seek::Data ? offset : size;
}

/// posix_fallocate promises that later writes find room. What can be done over SFTP: refuse where there is not enough
/// room now, and grow the file.
rt::Task<Status> FileSystem::allocate(HandleId id, std::uint64_t offset, std::uint64_t length) {
  PLY_CO_TRY(handle, handle_of(id));
  const NodePtr node = handle->node;
  co_await drain(node);
  PLY_CO_TRY(known, co_await current_attr(node));
  const std::uint64_t end = offset + length;
  if (end <= known.attr.size) co_return Status();
  const auto path = inodes_.path(*node);
  const std::string where = path.value_or("");
  auto stats = co_await branch_at(where).statfs(where);
  if (stats && stats->blocks_available * stats->fragment_size < end - known.attr.size) co_return Errc::NoSpace;
  AttrChange grow;
  grow.size = end;
  PLY_CO_CHECK(grown, co_await apply_change(node, grow));
  note_change(*node);
  co_return Status();
}

}  // namespace ply::vfs
