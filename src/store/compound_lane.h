// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "rt/scope.h"
#include "rt/semaphore.h"
#include "store/session.h"

namespace ply::store {

/// Whole small jobs in one round trip where SFTP needs three, one after the other: OPEN, then READ or WRITE with the
/// handle that the server answered, then CLOSE.
///
/// sftp-server serves a channel's requests in order and takes handles from a last-in-first-out free list. So on a
/// channel where at most one handle is ever open, the next one is always number 0, and a job can be sent as one
/// *unit* with that handle guessed. A unit whose OPEN fails gets "invalid handle" for the rest and leaves the free list
/// as it was. The lane is probed before its first unit, and every reply is checked: each must come in its turn, each
/// OPEN must answer handle 0. At the first surprise the lane is switched off for good, and every unit that was under
/// way answers "not known": its caller does the job again the plain way, which must repair whatever the unit did. So
/// only such jobs may be sent: reading, exclusive creation and whole replacement; an append goes alone (see append()).
///
/// Owns the session, which carries nothing else. Requires at destruction: close() and no call waiting.
class CompoundLane {
 public:
  struct Options {
    /// Bytes of requests, and of data that replies will bring, that may be under way. sftp-server slows down when it
    /// is flooded with small requests (it grows its input by copying).
    std::uint64_t max_under_way = 1 << 20;
    /// A unit that takes longer than this ends the lane: one open of a FIFO blocks the server for ever. 0: no limit.
    rt::Duration watchdog{};
  };
  /// Probes: nothing if the server's handles can't be guessed. `directory` is any that can be listed.
  static rt::Task<std::unique_ptr<CompoundLane>> open(rt::Loop& loop, std::shared_ptr<Session> session,
                                                      std::string directory, Options options, Logger& log);
  ~CompoundLane();

  bool is_on() const { return !off_ && session_->channel().is_open(); }
  void close();
  const Session& session() const { return *session_; }

  template <class T>
  struct Outcome {
    std::optional<Result<T>> answer;  ///< nothing: not known, do it again the plain way
    bool opened = false;              ///< the server had opened (or made) the file
    bool lost = false;                ///< it was sent, and the channel ended before the replies
  };

  struct File {
    Attr attr;  ///< as of the open
    Buffer data;
  };
  /// The first `max_size` bytes of a regular file. `expected` is what it will probably have.
  rt::Task<Outcome<File>> read(std::string path, std::size_t max_size, std::size_t expected);

  struct Listing {
    std::vector<sftp::NameEntry> entries;
    bool complete = false;
  };
  /// A directory's entries as far as `batches` READDIRs bring them.
  rt::Task<Outcome<Listing>> list(std::string path, std::size_t batches);

  enum class Begin {
    Create,  ///< fails if there is anything of that name
    Replace  ///< of a file that is there
  };
  struct Write {
    std::string path;
    Begin begin = Begin::Create;
    std::uint32_t mode = 0;  ///< of a new file, as OPEN carries it
    /// Set by handle after the data, in this order: the owner before the mode, which a chown cuts.
    std::vector<AttrChange> changes;
  };
  /// A whole file. The attributes are those after it all; a change that is refused does not fail the job.
  rt::Task<Outcome<Attr>> write(Write what, std::shared_ptr<const Buffer> data);
  /// Adds to the end of a file. Can't be done again, so it waits until it is alone on the lane, and others wait for it:
  /// then a handle that was guessed wrong has no other file behind it and nothing was written. If the channel ends
  /// before the replies have come, that is the answer: it may have been done.
  rt::Task<Outcome<Attr>> append(std::string path, std::shared_ptr<const Buffer> data);

 private:
  CompoundLane(rt::Loop& loop, std::shared_ptr<Session> session, Options options, Logger& log);
  enum class Company {
    Shared,
    Alone
  };
  rt::Task<bool> probe(std::string directory);
  /// Sends a unit and checks its replies: its opening reply is the first. Nothing if the lane was off and nothing was
  /// sent; if it is off afterwards, the replies may be of anything, or the failure of the channel.
  rt::Task<std::optional<Result<std::vector<sftp::Reply>>>> run(std::vector<sftp::Request> unit, std::uint64_t data,
                                                                Company company);
  bool as_expected(const std::vector<sftp::Reply>& replies);
  void switch_off(std::string_view why);
  /// Waits until no unit is under way, so that nothing of this lane can happen any more.
  rt::Task<void> settle();
  /// True if the unit's file was opened and the rest of the replies is to be read. Puts into `out` what the opening
  /// said.
  template <class T>
  bool begins_well(const std::optional<Result<std::vector<sftp::Reply>>>& replies, Outcome<T>& out) const;
  /// Of units that write: the attributes after it, or the first failure of `writes` WRITEs and the CLOSE.
  Outcome<Attr> outcome_of_write(const std::optional<Result<std::vector<sftp::Reply>>>& replies,
                                 std::size_t writes) const;

  rt::Loop& loop_;
  std::shared_ptr<Session> session_;
  Options options_;
  Logger& log_;
  rt::Semaphore budget_;
  rt::WaitList changed_;
  std::size_t under_way_ = 0;
  bool alone_ = false;  // an append has the lane, or waits for it
  bool off_ = false;
};

}  // namespace ply::store
