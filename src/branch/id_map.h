// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/attr.h"
#include "base/result.h"

namespace ply::branch {

/// What to do with an id that a map does not name.
enum class Unmapped {
  Keep,
  Refuse
};

/// Translates a server's numeric ids to this machine's and back (-o idmap=user|file).
class IdMap {
 public:
  /// Ids pass unchanged.
  IdMap() = default;
  /// Swaps one user: the server's login user is the local one, in both directions.
  static IdMap for_user(std::uint32_t remote_uid, std::uint32_t remote_gid, std::uint32_t local_uid,
                        std::uint32_t local_gid);

  void map_user(std::uint32_t remote, std::uint32_t local);
  void map_group(std::uint32_t remote, std::uint32_t local);
  void set_unmapped(Unmapped unmapped) { unmapped_ = unmapped; }
  bool is_identity() const { return users_.to_local.empty() && groups_.to_local.empty(); }

  /// Errors: NotPermitted for an id without a mapping, if those are refused.
  Status to_local(Attr& attr) const;
  Status to_remote(AttrChange& change) const;

 private:
  struct Table {
    std::unordered_map<std::uint32_t, std::uint32_t> to_local;
    std::unordered_map<std::uint32_t, std::uint32_t> to_remote;
  };
  std::optional<std::uint32_t> find(const std::unordered_map<std::uint32_t, std::uint32_t>& table,
                                    std::uint32_t id) const;

  Table users_;
  Table groups_;
  Unmapped unmapped_ = Unmapped::Keep;
};

enum class IdKind {
  User,
  Group
};

/// Reads a uidfile or gidfile into `map`: lines "name:id" or of passwd(5) and group(5); names are looked up on this
/// machine, those it does not have are left out. Errors as sshfs's: the file must belong to `owner` and be writable
/// by nobody else.
Status load_id_file(const std::string& path, IdKind kind, std::uint32_t owner, IdMap& map);

}  // namespace ply::branch
