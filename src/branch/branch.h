// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ahead/walk_planner.h"
#include "base/log.h"
#include "branch/charset.h"
#include "branch/id_map.h"
#include "branch/open_file.h"
#include "branch/server_clock.h"
#include "cache/data_cache.h"
#include "cache/name_cache.h"
#include "rt/semaphore.h"
#include "store/store.h"

namespace ply::branch {

/// Bytes written and not acknowledged per connection. Twice an ssh channel's window: enough to keep it full, and little
/// enough that the data is still in the processor's cache when it goes to ssh (with 32 MiB writing was a fifth slower).
/// A link of more delay carries more at once, see Pace: then half of the memory may be under way.
constexpr std::uint64_t kDirtyPerConnection = 4 << 20;

struct BranchOptions {
  cache::NameCacheOptions cache;
  writeback::WriterOptions writer;
  std::uint64_t dirty_budget = kDirtyPerConnection;  ///< bytes written and not acknowledged, over all files
  std::uint64_t memory = 256 << 20;                  ///< for content that is cached, read ahead or not yet written
  bool revalidate_at_open = false;                   ///< cached content is compared with the server at each open
  bool follow_symlinks = false;                      ///< links are shown as what they point to
};

/// Attributes with how long they stay good.
struct KnownAttr {
  Attr attr;
  rt::Duration validity;
};

/// One store as the file system sees it: with what is known of it kept, ids and names translated, writes sent behind.
/// Changes go through to the store and adjust what is known; the cache only learns of what succeeded.
class Branch {
 public:
  Branch(rt::Loop& loop, std::unique_ptr<store::Store> store, BranchOptions options, Logger& log);

  void set_id_map(IdMap map) { ids_ = std::move(map); }
  void set_charset(std::unique_ptr<Charset> charset) { charset_ = std::move(charset); }

  std::string id() const { return store_->id(); }
  std::string root_path() const { return store_->root_path(); }
  /// True if new files are to be given their creator as owner.
  bool gives_ownership() const { return store_->may_set_owner() && ids_.is_identity(); }

  /// What is known without asking; a known absence is NotFound. Nothing if the store must be asked.
  std::optional<Result<KnownAttr>> known(const std::string& path);
  rt::Task<Result<KnownAttr>> stat(std::string path);
  rt::Duration absence_validity(const std::string& path) { return names_.absence_validity(path); }
  /// Mode, uid and gid of a directory.
  rt::Task<Result<Attr>> permissions(std::string path);
  rt::Task<Result<std::vector<store::DirEntry>>> list(std::string path);
  rt::Task<Result<std::string>> read_link(std::string path);
  rt::Task<Result<FsStats>> statfs(std::string path);

  struct Opened {
    std::unique_ptr<OpenFile> file;
    Attr attr;
  };
  rt::Task<Result<Opened>> open(std::string path, store::OpenMode mode);
  /// How sure the program wants to be that a file is new.
  enum class Creation {
    Exclusive,  ///< asked of the server at once: programs use it as a lock
    Shared      ///< a file that somebody else makes at the same time will do as well
  };
  rt::Task<Result<Opened>> create(std::string path, store::OpenMode mode, store::NewNode node, Creation creation);
  rt::Task<Result<Attr>> make_directory(std::string path, store::NewNode node);
  rt::Task<Result<Attr>> make_symlink(std::string target, std::string path, store::NewNode node);
  rt::Task<Status> remove_file(std::string path);
  rt::Task<Status> remove_directory(std::string path);
  rt::Task<Status> rename(std::string from, std::string to, store::Replace replace);
  rt::Task<Status> link(std::string existing, std::string path);
  /// The attributes after it are known then.
  rt::Task<Status> set_attr(std::string path, AttrChange change, store::Follow follow);
  rt::Task<Status> sync_directory(std::string path);
  rt::Task<void> shut_down();

  /// Sends what is pending at or below the path: its names are about to be looked at, or to change, as a whole.
  rt::Task<void> settle_below(std::string path);
  /// Seconds since 1970 as the server counts them, as far as new files told.
  std::int64_t server_seconds() const { return clock_.seconds(); }

  /// The file was changed through an open handle: what is known of `path` is out of date.
  void changed(const std::string& path) { names_.changed(path); }
  /// A name was made or removed in the directory.
  void touched(const std::string& directory) { names_.touched(directory, server_seconds()); }
  /// Attributes that were set here and will be on the server when what is under way has arrived.
  void expect_attr(const std::string& path, const Attr& attr) { names_.set_own_attr(path, attr); }
  /// Keeps what a handle told of `path`, if nothing changed since `asked`.
  void learn(const std::string& path, const Attr& attr, cache::NameCache::Ticket asked) {
    names_.put_attr(path, attr, asked);
  }
  cache::NameCache::Ticket ticket() const { return names_.ticket(); }
  void adjust_links(const std::string& path, int by) { names_.adjust_links(path, by); }

 private:
  friend class OpenFile;
  /// The store's form of a path: InvalidArgument if its character set has no such name.
  Result<std::string> outward(const std::string& path) const;
  /// Ids to local ones.
  Result<Attr> inward(Attr attr) const;
  /// The store's attributes of a path.
  rt::Task<Result<Attr>> ask(std::string path, std::string remote);
  /// What is known of a regular file, as good as asked now.
  std::optional<Attr> known_file(const std::string& path);
  rt::Task<Result<Opened>> open_small(std::string path, std::string remote, Attr known);
  std::optional<Opened> open_pending(const std::string& path, const store::OpenMode& mode);
  rt::Task<Result<Opened>> open_attached(std::string path, std::string remote, store::OpenMode mode);
  rt::Task<void> load_beginning(std::string remote, std::shared_ptr<cache::FileData> data,
                                cache::FileData::LoadPtr load);
  std::optional<Opened> create_pending(const std::string& path, const store::OpenMode& mode,
                                       const store::NewNode& node);
  Attr expected_attr(const store::NewNode& node, cache::NameCache::Owner owner) const;
  // What is fetched before it is asked for (branch_ahead.cpp)
  double seconds_now() const;
  void fetch(ahead::WalkWish wish);
  /// The planner's answer to a listing.
  void plan_from_listing(const std::string& path, const std::vector<store::DirEntry>& entries);
  enum class Why {
    Walk,     ///< a program will list it
    LookUp,   ///< one name in it was looked up; worth it for a small directory only
    Refresh,  ///< more were, or its listing is about to be too old to prove absences
  };
  rt::Task<void> list_ahead(std::string path, Why why);
  void refresh(const std::string& directory);
  /// True if the directory can be listed again and again beside everything else.
  bool is_cheap_to_list(const std::string& directory) const;
  void add_pending(const std::string& path, std::vector<store::DirEntry>& entries);
  rt::Task<void> read_ahead(std::string path, std::uint64_t size);
  /// A name in the directory had to be asked for by itself: others there will be, so the directory is listed beside it,
  /// if it is small; at the second one in any case.
  void note_lookup(const std::string& directory);
  /// Waits for what is being fetched under the key, if anything is.
  rt::Task<bool> wait_for(std::map<std::string, std::shared_ptr<rt::Event>>* under_way, std::string path);
  std::vector<store::DirEntry> localize(std::vector<store::DirEntry> entries) const;

  /// The server told these attributes just now: forgets `data` if it is of others, and takes it as being of these from
  /// now on.
  void adopt_version(cache::FileData& data, const Attr& attr);
  /// True if what is known of the content of `path` is of `known`, its attributes as they are believed: then nobody
  /// need be asked. Of a file that had just changed that holds for as long as attributes do, however often the server
  /// tells the same of it meanwhile.
  bool is_current(const cache::FileData& data, const std::string& path, const Attr& known);
  cache::ContentVersion version_of(const Attr& attr) const;
  /// A file that was written here is on the server now. `all_ours`: what is known of its content is all that it has.
  void settled(const std::optional<std::string>& path, const Attr& attr, bool all_ours);

  rt::Loop& loop_;
  std::unique_ptr<store::Store> store_;
  BranchOptions options_;
  Logger& log_;
  IdMap ids_;
  std::unique_ptr<Charset> charset_;
  cache::NameCache names_;
  rt::Semaphore dirty_budget_;
  cache::DataCache data_;
  rt::Scope background_;
  std::map<std::string, OpenFile*> pending_;  // files that are written here and not on the server yet, by path
  ahead::WalkPlanner walk_;
  std::map<std::string, std::shared_ptr<rt::Event>> listings_under_way_;
  std::map<std::string, std::shared_ptr<rt::Event>> reads_under_way_;
  std::map<std::string, int> lookups_;  // per directory, of names that had to be asked for
  ServerClock clock_;
};

}  // namespace ply::branch
