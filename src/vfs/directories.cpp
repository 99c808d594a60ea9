// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/file_system.h"

namespace ply::vfs {

Result<HandleId> FileSystem::open_directory(NodeId id) {
  PLY_TRY(node, node_of(id));
  const HandleId handle = next_handle_++;
  directories_.emplace(handle, OpenDirectory{node, nullptr});
  return handle;
}

rt::Task<Result<std::shared_ptr<DirSnapshot>>> FileSystem::read_directory(HandleId handle, std::uint64_t offset) {
  const auto found = directories_.find(handle);
  if (found == directories_.end()) co_return Errc::BadHandle;
  if (offset > 0 && found->second.snapshot) co_return found->second.snapshot;
  auto snapshot = std::make_shared<DirSnapshot>();
  snapshot->directory = found->second.node;
  const auto path = inodes_.path(*snapshot->directory);
  if (path) {
    PLY_CO_TRY(entries, co_await branch_at(*path).list(*path));
    snapshot->entries = std::move(entries);
  }  // else: a removed directory that is still open is empty
  const auto still_open = directories_.find(handle);
  if (still_open != directories_.end()) still_open->second.snapshot = snapshot;
  co_return snapshot;
}

std::uint64_t FileSystem::ino_of_entry(const DirSnapshot& snapshot, const store::DirEntry& entry) const {
  return inodes_.ino_of(*snapshot.directory, entry.name);
}

std::uint64_t FileSystem::ino_of_parent(const DirSnapshot& snapshot) const {
  const Node& directory = *snapshot.directory;
  return directory.names.empty() ? directory.ino : directory.names.front().parent->ino;
}

std::optional<EntryReply> FileSystem::look_up_listed(const DirSnapshot& snapshot, const store::DirEntry& entry) {
  const auto path = inodes_.path(*snapshot.directory, entry.name);
  if (!path) return std::nullopt;
  // The snapshot may be old by now; what is known is not.
  const auto known = branch_at(*path).known(*path);
  if (!known || !*known || (*known)->attr.type == FileType::Unknown) return std::nullopt;
  const NodePtr node = inodes_.adopt(snapshot.directory, entry.name, (*known)->attr.type);
  return entry_reply(node, (*known)->attr, (*known)->validity);
}

rt::Task<Status> FileSystem::sync_directory(NodeId id) {
  PLY_CO_TRY(node, node_of(id));
  const auto path = inodes_.path(*node);
  if (!path) co_return Status();
  Status synced = co_await branch_at(*path).sync_directory(*path);
  // A server that can't sync a directory has no better answer; programs take a failure here for lost data.
  if (synced.failed_with(Errc::Unsupported)) co_return Status();
  co_return std::move(synced);
}

}  // namespace ply::vfs
