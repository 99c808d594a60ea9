// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "branch/charset.h"
#include "branch/id_map.h"
#include "branch/open_file.h"
#include "cache/name_cache.h"
#include "rt/semaphore.h"
#include "store/store.h"

namespace ply::branch {

/// Twice an ssh channel's window: enough to keep it full, and little enough that the data is still in the processor's
/// cache when it goes to ssh (with 32 MiB writing was a fifth slower).
constexpr std::uint64_t kDirtyPerConnection = 4 << 20;

struct BranchOptions {
  cache::NameCacheOptions cache;
  writeback::WriterOptions writer;
  std::uint64_t dirty_budget = kDirtyPerConnection;  ///< bytes written and not acknowledged, over all files
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
  rt::Task<Result<std::vector<store::DirEntry>>> list(std::string path);
  rt::Task<Result<std::string>> read_link(std::string path);
  rt::Task<Result<FsStats>> statfs(std::string path);

  struct Opened {
    std::unique_ptr<OpenFile> file;
    Attr attr;
  };
  rt::Task<Result<Opened>> open(std::string path, store::OpenMode mode);
  rt::Task<Result<Opened>> create(std::string path, store::OpenMode mode, store::NewNode node);
  rt::Task<Result<Attr>> make_directory(std::string path, store::NewNode node);
  rt::Task<Result<Attr>> make_symlink(std::string target, std::string path, store::NewNode node);
  rt::Task<Status> remove_file(std::string path);
  rt::Task<Status> remove_directory(std::string path);
  rt::Task<Status> rename(std::string from, std::string to, store::Replace replace);
  rt::Task<Status> link(std::string existing, std::string path);
  rt::Task<Status> set_attr(std::string path, AttrChange change, store::Follow follow);
  rt::Task<Status> sync_directory(std::string path);
  rt::Task<void> shut_down() { return store_->shut_down(); }

  /// The file was changed through an open handle: what is known of `path` is out of date.
  void changed(const std::string& path) { names_.changed(path); }
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
  rt::Task<Result<Opened>> finish_open(std::string path, store::OpenMode mode, store::Opened opened);

  rt::Loop& loop_;
  std::unique_ptr<store::Store> store_;
  BranchOptions options_;
  Logger& log_;
  IdMap ids_;
  std::unique_ptr<Charset> charset_;
  cache::NameCache names_;
  rt::Semaphore dirty_budget_;
};

}  // namespace ply::branch
