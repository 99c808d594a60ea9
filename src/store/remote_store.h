// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/byte_stream.h"
#include "rt/scope.h"
#include "rt/semaphore.h"
#include "store/cause.h"
#include "store/lanes.h"
#include "store/link_state.h"
#include "store/remote_file.h"
#include "store/session.h"

namespace ply::store {

struct RemoteStoreOptions {
  std::string base;        ///< the directory on the server; "" is where the login starts
  bool check_root = true;  ///< connect() fails if base is not a directory
  LossOptions loss;        ///< what is done when the connection is lost
  std::size_t max_connections = 1;
  std::uint32_t max_read = 0;  ///< 0: as the server's limits say
  std::uint32_t max_write = 0;
  bool pipeline_listing = true;      ///< several READDIR requests under way (sync_readdir: false)
  bool lanes = true;                 ///< several channels, whole jobs in one round trip
  bool create_without_mode = false;  ///< workaround=createmode: OPEN carries mode 0, the mode is set afterwards
};

/// A directory of an SFTP server, over one or more connections that a dialer makes, each with several channels where
/// that is cheap (lanes.h). Whole jobs take one round trip where the server allows it, and go in steps where not.
/// When its connection is lost, calls that are under way fail with ConnectionLost, later ones wait for the next one
/// (see LinkState); SteadyStore resumes the former. Requires at destruction: shut_down() awaited, all files gone.
class RemoteStore final : public Store {
 public:
  RemoteStore(rt::Loop& loop, std::unique_ptr<rt::Dialer> dialer, RemoteStoreOptions options, Logger& log,
              WireMeter& meter);
  ~RemoteStore() override;

  /// Logs in and looks at the base directory. Without it the first request does.
  rt::Task<Status> connect();
  /// Called once when a connection ends by itself and is not to be made again.
  void on_lost(std::function<void(const Error&)> callback) { on_lost_ = std::move(callback); }
  /// Called once, after the first login, with the attributes of the login directory if the server tells them.
  void on_connected(std::function<void(const std::optional<Attr>& home)> callback) {
    on_connected_ = std::move(callback);
  }

  std::string id() const override;
  std::string root_path() const override { return root_path_; }
  bool may_set_owner() const override { return session_is_root_; }
  std::size_t preferred_write_size() const override;
  std::size_t preferred_read_size() const override;
  std::uint64_t read_window() const override;
  double read_rate() const override;
  std::size_t max_job_size() const override;
  bool keeps_order() const override;
  bool sets_attributes() const override;
  bool sets_owner() const override;
  Lanes& lanes() { return lanes_; }
  const LinkState& link() const { return link_; }
  LinkState& link() { return link_; }
  /// True if what fails with ConnectionLost may be tried again: over a connection that stands, or is being made.
  bool will_return() const { return !shutting_down_ && (link_.is_up() || link_.is_coming_back()); }
  /// Ends the connections, and makes none any more: all who wait are told. shut_down() still has to follow.
  void give_up();
  /// Something happened to this machine (it slept, its addresses changed): is the server still there?
  void look_now();
  /// Puts right whatever a lost creation or replacement did to a file: content, owner and mode, in steps that each wait
  /// for the one before.
  rt::Task<Result<Attr>> write_again(std::string path, WholeFile file);
  /// Removes what a rename over `path`, that lost its connection, had set aside there.
  rt::Task<void> remove_set_aside(std::string path);

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
  using SessionPtr = std::shared_ptr<Session>;

  /// See LinkState::wait(): whatever goes over a lane begins with it, as session() does.
  rt::Task<Status> reachable();
  /// A live session with the least to do. Logs in for the first time; waits for a login that is being made again.
  rt::Task<Result<SessionPtr>> session();
  SessionPtr least_busy_session() const;
  /// Where files are opened: a file lane, or a connection.
  rt::Task<Result<SessionPtr>> file_session();
  rt::Task<Result<SessionPtr>> log_in();
  rt::Task<Status> learn_server(SessionPtr session);
  void session_ended(std::weak_ptr<Session> session);
  rt::Task<void> report_loss(SessionPtr session);
  /// A channel whose server has answered; after the first login within bounded time.
  rt::Task<Result<std::unique_ptr<sftp::Channel>>> begin_channel(std::unique_ptr<rt::ByteStream> stream);
  /// Makes the connection again, however long it takes.
  rt::Task<void> redial();
  /// Watches for silence as long as the server owes answers.
  void begin_watch();
  rt::Task<void> watch();
  /// Small questions, which the server answers soon if it is there. A connection on which nothing comes for `patience`
  /// (when it is not zero) is given up.
  rt::Task<void> probe(rt::Duration patience);
  rt::Task<void> probe_one(SessionPtr session, rt::Duration patience);
  /// See LinkState.
  rt::Duration silence() const;
  std::size_t unanswered() const;
  rt::TimePoint last_heard() const;
  /// Sleeps, but not longer than until shut_down() or look_now().
  rt::Task<void> nap(rt::Duration duration);

  std::string full_path(std::string_view path) const;
  /// OPEN, with the fallbacks for servers that refuse APPEND or reading and writing at once.
  rt::Task<Result<std::unique_ptr<RemoteFile>>> open_file(SessionPtr session, std::string full, OpenMode mode,
                                                          std::uint32_t create_flags,
                                                          std::optional<std::uint32_t> permissions);
  /// Rename over an existing target on a server whose rename refuses that.
  rt::Task<Status> replace_by_steps(SessionPtr session, std::string from, std::string to, Error refused);
  /// `failure` under its true cause, with operation, path and server.
  rt::Task<Error> explain(SessionPtr session, Attempt attempt, Error failure, std::string path, std::string other = {},
                          std::uint64_t size = 0);
  rt::Task<Result<std::vector<DirEntry>>> list_in_steps(std::string path, std::size_t max_entries);
  void forget_set_aside(const std::string& target, const std::string& aside);
  void take_names(std::vector<sftp::NameEntry> names, const std::string& full, std::vector<DirEntry>& entries) const;
  /// What is set by handle after a file was made, in this order.
  std::vector<AttrChange> changes_of(const NewNode& node) const;
  std::uint32_t open_permissions(const NewNode& node) const;
  rt::Task<void> apply_change(SessionPtr session, std::string handle, AttrChange change);
  rt::Task<Result<Attr>> make_and_look(SessionPtr session, Attempt attempt, sftp::Request make, std::string full);
  rt::Task<void> dress(SessionPtr session, std::string full, NewNode node, Attr* attr);
  rt::Task<void> close_quietly(SessionPtr session, std::string handle);

  rt::Loop& loop_;
  std::unique_ptr<rt::Dialer> dialer_;
  RemoteStoreOptions options_;
  Logger& log_;
  WireMeter& meter_;
  LinkState link_;
  rt::Mutex login_;
  rt::Scope background_;
  std::vector<SessionPtr> sessions_;
  Lanes lanes_;
  OpenNames open_names_;
  std::multimap<std::string, std::string> set_aside_;  // replaced targets by another name, while they are needed
  std::weak_ptr<Session> lanes_login_;                 // whose channels the lanes are
  rt::WaitList naps_;
  bool watching_ = false;
  rt::TimePoint watch_began_;
  bool probing_ = false;
  std::optional<rt::TimePoint> last_look_;
  bool ever_connected_ = false;
  bool shutting_down_ = false;
  sftp::Channel* logging_in_ = nullptr;  // its server has not answered all that a login asks
  bool server_refuses_append_ = false;
  bool session_is_root_ = false;
  std::string root_path_;
  std::function<void(const Error&)> on_lost_;
  std::function<void(const std::optional<Attr>& home)> on_connected_;
};

}  // namespace ply::store
