// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "rt/event.h"
#include "rt/scope.h"
#include "store/file_record.h"
#include "store/remote_store.h"

namespace ply::store {

/// How often a connection may end under one operation: a request that a server dies of would otherwise kill it for
/// ever.
class Losses {
 public:
  explicit Losses(const RemoteStore& store) : store_(store) {}
  /// True if `outcome` (a Result or Status) is a loss of the connection, and the operation is to be tried again or its
  /// outcome looked up: the store waits for the new connection by itself.
  template <class T>
  bool call_for_more(const T& outcome) {
    return outcome.failed_with(Errc::ConnectionLost) && store_.will_return() && ++count_ <= kMost;
  }
  /// True if the connection was lost before: what was asked may have been done.
  bool any() const { return count_ > 0; }

 private:
  static constexpr int kMost = 20;
  const RemoteStore& store_;
  int count_ = 0;
};

/// A remote store whose connections may come and go: an operation that loses its connection is resumed on the next
/// one, and open files are opened again. What can be done twice is done again; of anything else the server is asked
/// whether it was done. An operation that somebody waits for fails with TimedOut when the server stays away, see
/// LinkState; its outcome is not known then. Without LossOptions::reconnect losses are failures, as below.
/// Requires at destruction: shut_down() awaited, all files gone.
class SteadyStore final : public Store {
 public:
  SteadyStore(rt::Loop& loop, std::unique_ptr<RemoteStore> remote, Logger& log);

  RemoteStore& remote() { return *remote_; }

  std::string id() const override { return remote_->id(); }
  std::string root_path() const override { return remote_->root_path(); }
  std::uint64_t read_window() const override { return remote_->read_window(); }
  double read_rate() const override { return remote_->read_rate(); }
  std::size_t preferred_read_size() const override { return remote_->preferred_read_size(); }
  std::size_t max_job_size() const override { return remote_->max_job_size(); }
  bool keeps_order() const override { return remote_->keeps_order(); }
  bool sets_attributes() const override { return remote_->sets_attributes(); }
  bool sets_owner() const override { return remote_->sets_owner(); }
  bool may_set_owner() const override { return remote_->may_set_owner(); }
  std::size_t preferred_write_size() const override { return remote_->preferred_write_size(); }

  rt::Task<Result<Attr>> stat(std::string path, Follow follow) override;
  rt::Task<Result<std::vector<DirEntry>>> list(std::string path, Urgency urgency) override;
  rt::Task<Result<SmallFile>> read_file(std::string path, std::size_t max_size, std::size_t expected,
                                        Urgency urgency) override;
  rt::Task<Result<Attr>> write_file(std::string path, WholeFile file) override;
  rt::Task<Result<Attr>> append_file(std::string path, std::uint64_t base_size,
                                     std::shared_ptr<const Buffer> data) override;
  rt::Task<Result<Opened>> open(std::string path, OpenMode mode) override;
  rt::Task<Result<Opened>> create(std::string path, OpenMode mode, NewNode node, Confirm confirm) override;
  rt::Task<Result<Attr>> make_directory(std::string path, NewNode node) override;
  rt::Task<Result<Attr>> make_symlink(std::string target, std::string path, NewNode node) override;
  rt::Task<Result<std::string>> read_link(std::string path) override;
  rt::Task<Status> remove_file(std::string path) override;
  rt::Task<Status> remove_directory(std::string path) override;
  rt::Task<Status> rename(std::string from, std::string to, Replace replace) override;
  rt::Task<Status> link(std::string existing, std::string path) override;
  rt::Task<Result<Attr>> set_attr(std::string path, AttrChange change, Follow follow) override;
  rt::Task<Result<FsStats>> statfs(std::string path) override;
  rt::Task<Status> sync_directory(std::string path) override;
  rt::Task<void> shut_down() override;

 private:
  friend class SteadyFile;
  using RecordPtr = std::shared_ptr<FileRecord>;

  /// What names lead to is about to change; files are not opened again by them meanwhile.
  class Moving {
   public:
    Moving(SteadyStore& store, std::vector<std::string> paths);
    ~Moving();
    Moving(const Moving&) = delete;

   private:
    SteadyStore& store_;
    std::vector<std::string> paths_;
  };
  rt::Task<void> wait_while_moving(RecordPtr record);

  /// Does what can be done twice, until it is done on one connection.
  template <class T>
  rt::Task<T> repeat(std::function<rt::Task<T>()> once);

  rt::Task<Status> remove(std::string path, bool directory);
  /// What a lost MKDIR, SYMLINK or LINK left at the path: the attributes of what was to be made, Exists if it is
  /// something else, NotFound if there is nothing.
  rt::Task<Result<Attr>> find_directory(std::string path, NewNode node);
  rt::Task<Result<Attr>> find_symlink(std::string target, std::string path);
  rt::Task<Status> find_link(std::string existing, std::string path);
  rt::Task<Result<Opened>> adopt_created(std::string path, OpenMode mode, NewNode node);
  /// True if a file that stands there may be what a lost creation of `node` made.
  static bool can_be_claimed(const NewNode& node, const Attr& there);
  /// True if `data` stands in the file behind `base`.
  rt::Task<Result<bool>> was_appended(std::string path, std::uint64_t base, std::shared_ptr<const Buffer> data);

  /// The record of an open file at the path with these attributes: shared if it is the same file.
  RecordPtr record_of(const std::string& path, const Attr& attr);
  /// The same for a file that was made just now.
  RecordPtr new_record(const std::string& path, const Attr& attr);
  RecordPtr find_record(const std::string& path) const;
  /// Changes of a file, that is open if there is a record, are on their way; as they are, for conclude().
  static std::vector<FileRecord::Change> begin(const RecordPtr& record, std::vector<FileRecord::Change> changes);
  /// They are over; `attr` are its attributes after them, if they were made.
  static void conclude(const RecordPtr& record, const std::vector<FileRecord::Change>& changes,
                       const Result<Attr>& attr);
  void forget(const FileRecord& record);
  void name_gone(const std::string& path);
  void name_moved(const std::string& from, const std::string& to);

  rt::Loop& loop_;
  std::unique_ptr<RemoteStore> remote_;
  Logger& log_;
  rt::Scope background_;
  bool sets_modes_ = false;  // the server was seen to, on this connection or an earlier one
  std::map<std::string, std::weak_ptr<FileRecord>> records_;
  std::multiset<std::string> moving_;
  rt::WaitList moved_;
};

}  // namespace ply::store
