// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "os/uv_loop.h"
#include "store/store.h"

namespace ply::store {

/// A directory of this machine, by system calls on worker threads. Same promises as a remote one; errors are exact.
class LocalStore final : public Store {
 public:
  /// `root`: an absolute path.
  LocalStore(os::UvLoop& loop, std::string root);

  std::string id() const override { return "local:" + root_; }
  std::string root_path() const override { return root_; }
  bool may_set_owner() const override;
  std::size_t preferred_write_size() const override { return 1 << 20; }

  rt::Task<Result<Attr>> stat(std::string path, Follow follow) override;
  rt::Task<Result<std::vector<DirEntry>>> list(std::string path, Urgency urgency) override;
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
  rt::Task<void> shut_down() override { co_return; }

 private:
  std::string full_path(std::string_view path) const;

  os::UvLoop& loop_;
  std::string root_;
};

/// The Errc of a system call's errno.
Errc errc_of_errno(int value);

}  // namespace ply::store
