// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/slices.h"
#include "merge/tree.h"
#include "vfs/inode_table.h"
#include "vfs/link_memory.h"
#include "vfs/symlinks.h"

namespace ply::vfs {

enum class PageCache {
  Auto,    ///< kept over open and close while size and mtime stay (the default)
  Keep,    ///< always kept (kernel_cache)
  Drop,    ///< dropped at each open (noauto_cache)
  Bypass,  ///< not used (direct_io)
};

struct Options {
  std::optional<std::uint32_t> uid;  ///< shown as every file's owner
  std::optional<std::uint32_t> gid;
  std::optional<std::uint32_t> umask;  ///< every file shows 0777 less this
  /// What the kernel is told to keep, instead of how long we know it ourselves.
  std::optional<rt::Duration> attr_timeout;
  std::optional<rt::Duration> entry_timeout;
  std::optional<rt::Duration> negative_timeout;
  PageCache page_cache = PageCache::Auto;
  SymlinkRules symlinks;
  std::string typed_root;  ///< the root as the user wrote it, for links that name it
  bool hard_links = true;
};

/// Who asks. The mode in requests has the caller's umask taken off already.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct FileStat {
  std::uint64_t ino = 0;
  Attr attr;
  std::int64_t ctime = 0;
};

struct AttrReply {
  FileStat stat;
  rt::Duration timeout{};
};

struct EntryReply {
  NodeId node = 0;  ///< 0: no such name, and `entry_timeout` says how long that is known
  FileStat stat;
  rt::Duration attr_timeout{};
  rt::Duration entry_timeout{};
};

using HandleId = std::uint64_t;

struct OpenReply {
  HandleId handle = 0;
  bool bypass_page_cache = false;
  bool keep_page_cache = false;
};

struct CreateReply {
  EntryReply entry;
  OpenReply open;
};

/// A time to set: a value, "now", or (by absence) leave it.
struct SetNow {};
using TimeChange = std::variant<std::int64_t, SetNow>;

struct SetAttr {
  std::optional<std::uint32_t> mode, uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<TimeChange> atime, mtime;
};

/// What an open asks for; the flags of open(2) that matter to a server.
struct OpenFlags {
  bool read = false;
  bool write = false;
  bool append = false;
  bool truncate = false;
  bool exclusive = false;
};

/// A directory's entries as they were when the reading began (opendir, rewinddir).
struct DirSnapshot {
  NodePtr directory;
  std::vector<store::DirEntry> entries;
};

/// Data of a write is best given with that much headroom.
constexpr std::size_t kWriteHeadroom = store::File::kWriteHeadroom;

enum class WriteOrigin {
  Program,
  PageCache
};
enum class RenameRule {
  Replace,
  NoReplace
};
enum class Seek {
  Data,
  Hole
};

/// One open(2) of a file.
struct OpenHandle {
  HandleId id = 0;
  NodePtr node;
  std::unique_ptr<branch::OpenFile> file;
  /// For pages that the kernel writes back through an appending handle: those have their place.
  std::unique_ptr<branch::OpenFile> page_writer;
  bool bypasses_page_cache = false;
  std::optional<Error> failure;  ///< of a background write, not yet told to this descriptor
};

/// POSIX operations on inodes and handles: what the kernel asks of a file system, without FUSE's types. Every reply
/// with an EntryReply whose node is not 0 adds a kernel reference, which forget() takes back.
/// Owns inodes and handles. Ends with shut_down(), after which no call may come.
class FileSystem {
 public:
  FileSystem(rt::Loop& loop, std::unique_ptr<merge::Tree> tree, Options options, Logger& log);
  ~FileSystem();

  // Names (names.cpp)
  rt::Task<Result<EntryReply>> lookup(NodeId directory, std::string name);
  void forget(NodeId node, std::uint64_t lookups) { inodes_.forget(node, lookups); }
  rt::Task<Result<EntryReply>> make_node(NodeId directory, std::string name, std::uint32_t mode, Caller caller);
  rt::Task<Result<EntryReply>> make_directory(NodeId directory, std::string name, std::uint32_t mode, Caller caller);
  rt::Task<Result<EntryReply>> make_symlink(std::string target, NodeId directory, std::string name, Caller caller);
  rt::Task<Result<std::string>> read_link(NodeId node);
  rt::Task<Result<EntryReply>> link(NodeId node, NodeId directory, std::string name);
  rt::Task<Status> unlink(NodeId directory, std::string name);
  rt::Task<Status> remove_directory(NodeId directory, std::string name);
  rt::Task<Status> rename(NodeId directory, std::string name, NodeId to, std::string new_name, RenameRule rule);

  // Attributes (attributes.cpp)
  rt::Task<Result<AttrReply>> get_attr(NodeId node);
  rt::Task<Result<AttrReply>> set_attr(NodeId node, SetAttr change);
  rt::Task<Status> check_execute(NodeId node);
  rt::Task<Result<FsStats>> statfs(NodeId node);

  // Files (files.cpp)
  rt::Task<Result<OpenReply>> open(NodeId node, OpenFlags flags);
  rt::Task<Result<CreateReply>> create(NodeId directory, std::string name, std::uint32_t mode, OpenFlags flags,
                                       Caller caller);
  rt::Task<Result<Slices>> read(HandleId handle, std::uint64_t offset, std::size_t size);
  rt::Task<Status> write(HandleId handle, std::uint64_t offset, Buffer data, WriteOrigin origin);
  rt::Task<Status> flush(HandleId handle);
  rt::Task<Status> sync(HandleId handle);
  rt::Task<void> release(HandleId handle);
  rt::Task<Result<std::uint64_t>> copy_range(HandleId from, std::uint64_t from_offset, HandleId to,
                                             std::uint64_t to_offset, std::uint64_t length);
  rt::Task<Result<std::uint64_t>> seek(HandleId handle, std::uint64_t offset, Seek what);
  rt::Task<Status> allocate(HandleId handle, std::uint64_t offset, std::uint64_t length);

  // Directories (directories.cpp)
  Result<HandleId> open_directory(NodeId node);
  /// The snapshot of an open directory; a new one at offset 0.
  rt::Task<Result<std::shared_ptr<DirSnapshot>>> read_directory(HandleId handle, std::uint64_t offset);
  void release_directory(HandleId handle) { directories_.erase(handle); }
  rt::Task<Status> sync_directory(NodeId node);
  std::uint64_t ino_of_entry(const DirSnapshot& snapshot, const store::DirEntry& entry) const;
  std::uint64_t ino_of_parent(const DirSnapshot& snapshot) const;
  /// A listed entry as a lookup of it would answer, with a kernel reference; nothing if its attributes are not known.
  std::optional<EntryReply> look_up_listed(const DirSnapshot& snapshot, const store::DirEntry& entry);

  /// The files of which the server does not have all yet.
  std::vector<std::string> unsent();
  /// Sends what is buffered and waits for it; the failures, one a file, each naming the path.
  rt::Task<std::vector<Error>> flush_all();
  /// flush_all, closes every handle, ends the connections.
  rt::Task<std::vector<Error>> shut_down();

  const Options& options() const { return options_; }

 private:
  struct OpenDirectory {
    NodePtr node;
    std::shared_ptr<DirSnapshot> snapshot;
  };
  /// A name that a request is about: its directory and its full path.
  struct Place {
    NodePtr directory;
    std::string path;
  };

  /// Marks names for as long as it lives, in one of the two sets below, and wakes who waits for them afterwards.
  class Mark {
   public:
    Mark(FileSystem& files, std::multiset<std::string>& set, std::vector<std::string> paths);
    ~Mark();
    Mark(const Mark&) = delete;

   private:
    FileSystem& files_;
    std::multiset<std::string>& set_;
    std::vector<std::string> paths_;
  };
  /// Waits until no name of `paths` is being opened. Requires: they are marked as moving, so that no new open begins.
  rt::Task<void> wait_while_opening(std::vector<std::string> paths);
  rt::Task<void> wait_while_moving(std::string path);

  Result<NodePtr> node_of(NodeId id) const;
  Result<OpenHandle*> handle_of(HandleId id) const;
  Result<Place> place_of(NodeId directory, const std::string& name) const;
  branch::Branch& branch_at(const std::string& path) { return tree_->at(path); }

  /// What the kernel is told of an inode whose server says `attr`: own unsent writes, overrides and link counts added.
  FileStat present(Node& node, const Attr& attr);
  AttrReply attr_reply(Node& node, const Attr& attr, rt::Duration validity);
  EntryReply entry_reply(const NodePtr& node, const Attr& attr, rt::Duration validity);
  static bool is_dirty(const Node& node);
  static std::uint64_t dirty_end(const Node& node);
  /// True if a writer of the inode other than `except` has unacknowledged data in the range.
  static bool overlaps_dirty(const Node& node, std::uint64_t offset, std::uint64_t size,
                             const branch::OpenFile* except = nullptr);
  /// True if the server's file may end in or before this range, as long as dirty data behind it has not arrived.
  bool is_before_dirty(const Node& node, std::uint64_t offset, std::uint64_t size);
  void note_change(Node& node);
  /// The server has taken, or refused, a write of `writer`: what is known of the inode, under any of its names and
  /// through any of its handles, is out of date.
  void written_behind(Node& node, const branch::OpenFile& writer, Range range);
  /// Its size was set: no handle may answer from what it had before.
  static void size_was_set(const Node& node);
  static void tell_other_handles(const Node& node, const branch::OpenFile& writer, Range range);
  /// What is known of the inode's attributes, under any of its names, is out of date.
  void forget_attributes(const Node& node);
  /// Waits until the server has all that was written to the inode.
  rt::Task<void> drain(NodePtr node);
  void collect_failures(Node& node);
  static Status take_failure(OpenHandle& handle);
  /// The inode's attributes, from what is known, an open handle, or the path.
  rt::Task<Result<branch::KnownAttr>> current_attr(NodePtr node);
  /// Mode, owner and group of something new in `directory`.
  rt::Task<store::NewNode> new_node(Place place, std::uint32_t mode, Caller caller, FileType type);
  rt::Task<Result<AttrChange>> with_times(NodePtr node, SetAttr change);
  rt::Task<Status> apply_change(NodePtr node, AttrChange change);

  OpenReply register_handle(const NodePtr& node, branch::Branch::Opened opened, OpenFlags flags);
  /// Gets the open file a handle on the server, under the name it has now.
  rt::Task<Status> attach(HandleId handle);
  /// The inode is about to lose a name: whatever is open of it must not need the name any more.
  rt::Task<void> attach_all(NodePtr node);
  /// Tells the open files of inodes whose path has changed.
  void tell_paths();
  /// A change of attributes that need not wait for the server, if it is of that kind.
  std::optional<AttrReply> set_attr_behind(const NodePtr& node, const AttrChange& change);
  rt::Task<Result<CreateReply>> open_existing(Place place, std::string name, OpenFlags flags);
  rt::Task<Result<branch::OpenFile*>> writer_for(OpenHandle* handle, WriteOrigin origin);
  void close_failed(const OpenHandle& handle, const Error& why);

  rt::Loop& loop_;
  std::unique_ptr<merge::Tree> tree_;
  Options options_;
  Logger& log_;
  InodeTable inodes_;
  LinkMemory written_links_;
  std::unordered_map<HandleId, std::unique_ptr<OpenHandle>> handles_;
  std::unordered_map<HandleId, OpenDirectory> directories_;
  HandleId next_handle_ = 1;
  /// Names whose file is about to be another one, from before the rename or removal is sent until our table says the
  /// same as the server; and names that are being opened. Neither crosses the other: an open by path would otherwise
  /// get the wrong file's handle. What was looked up meanwhile is looked up again.
  std::multiset<std::string> moving_;
  std::multiset<std::string> opening_;
  rt::WaitList moved_;
};

}  // namespace ply::vfs
