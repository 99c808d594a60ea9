// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rt/loop.h"
#include "store/store.h"

namespace ply::cache {

struct NameCacheOptions {
  rt::Duration attr_timeout = std::chrono::seconds(20);
  rt::Duration listing_timeout = std::chrono::seconds(20);
  rt::Duration link_timeout = std::chrono::seconds(20);
  /// How long a name is known not to be there. Short: programs wait for files to appear.
  rt::Duration absence_timeout = std::chrono::seconds(3);
  /// How long a listing proves that what it lacks is not there. Shorter still: nobody has asked for that name.
  rt::Duration listed_absence_timeout = std::chrono::milliseconds(900);
  std::size_t max_entries = 100000;       ///< the least used go first
  std::size_t max_listed_names = 200000;  ///< in all listings together; the oldest listings go first
};

/// What is known of one store's names: attributes, listings, link targets and absences, each until its time is up.
/// A zero timeout switches its kind off.
///
/// An answer that was under way while the same name was changed here must not be kept: whoever asks takes a
/// `ticket()` first and hands it in with the answer.
class NameCache {
 public:
  using Ticket = std::uint64_t;

  NameCache(rt::Loop& loop, NameCacheOptions options) : loop_(loop), options_(options) {}

  Ticket ticket() const { return sequence_; }
  /// True if this mount changed the file or the name since `asked`: an answer from then may be of another file.
  bool changed_since(const std::string& path, Ticket asked) const;

  std::optional<Attr> attr(const std::string& path);
  /// True if the name is known not to be there, by itself or since a fresh listing lacks it.
  bool is_absent(const std::string& path);
  /// All entries; the attributes of some may be unknown (type only), if they were changed since.
  std::optional<std::vector<store::DirEntry>> listing(const std::string& path);
  std::optional<std::string> link_target(const std::string& path);
  /// How long attr() will go on answering; zero if it does not.
  rt::Duration attr_validity(const std::string& path);
  rt::Duration absence_validity(const std::string& path);
  /// When the server told what attr() answers. Requires: attr(path).
  rt::TimePoint attr_told(const std::string& path);

  void put_attr(const std::string& path, const Attr& attr, Ticket asked);
  void put_absence(const std::string& path, Ticket asked);
  void put_listing(const std::string& path, const std::vector<store::DirEntry>& entries, Ticket asked,
                   rt::Duration took = {});
  void put_link_target(const std::string& path, const std::string& target, Ticket asked);

  /// This mount knows the file's attributes better than any answer under way: it was the last to change it.
  void set_own_attr(const std::string& path, const Attr& attr);
  /// A name was made or removed in the directory, at about `when`: its attributes are guessed until the server is asked
  /// again, soon.
  void touched(const std::string& directory, std::int64_t when);

  /// The file was opened for writing, or made, with the permissions it has now: it can be again.
  void prove_writable(const std::string& path);
  bool is_writable(const std::string& path);
  /// A file was made in the directory, with the permissions that has now, and got this owner.
  struct Owner {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
  };
  void prove_creation(const std::string& directory, Owner owner);
  /// Mode, uid and gid of what is known to be there; unlike attr() not in doubt because names below it come and go.
  std::optional<Attr> permissions(const std::string& path);
  /// True if the directory's listing proves absences, but not for long any more; told once per listing.
  bool wants_refresh(const std::string& directory);
  struct ListingCost {
    std::size_t names = 0;
    rt::Duration took{};  ///< to ask for it
  };
  /// Of the known listing of the directory; nothing if there is none.
  std::optional<ListingCost> listing_cost(const std::string& directory) const;
  /// The owner that a new file in the directory gets; nothing if it is not proven that one can be made.
  std::optional<Owner> owner_of_new_file(const std::string& directory);

  /// This mount changed the file: attributes and link target are unknown until asked again.
  void changed(const std::string& path);
  /// What this mount meant to do with the name went wrong: whether it is there is for the server to say.
  void doubted(const std::string& path);
  /// The server says that the name is there, whatever was believed.
  void appeared(const std::string& path);
  /// This mount made the name: it joins a known listing of its parent.
  void created(const std::string& path, const Attr& attr);
  /// This mount removed the name.
  void removed(const std::string& path);
  /// This mount renamed; what was known of the source's attributes is known of the target.
  void renamed(const std::string& from, const std::string& to);
  /// Adds to the known link count of `path`, if there is one.
  void adjust_links(const std::string& path, int by);
  /// Forgets the path and all below it.
  void forget_tree(const std::string& path);

  std::size_t size() const { return entries_.size(); }
  std::size_t listed_names() const { return listed_names_; }

 private:
  /// A listing's part of all listed names, as long as it is kept.
  class Share {
   public:
    Share() = default;
    explicit Share(std::size_t& total) : total_(&total) {}
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(total_, other.total_);
      std::swap(names_, other.names_);
      return *this;
    }
    ~Share() {
      if (total_ != nullptr) *total_ -= names_;
    }
    /// Requires: constructed with a total.
    void set(std::size_t names) {
      *total_ += names - names_;
      names_ = names;
    }

   private:
    std::size_t* total_ = nullptr;
    std::size_t names_ = 0;
  };
  struct Listing {
    std::uint64_t number = 0;  // of all listings that were kept
    Share share;
    std::unordered_map<std::string, FileType> names;
    /// Gone by now, but still believed to be there, until then: the kernel believes it, too, and what a program sees by
    /// listing and by asking for the name is to be the same.
    std::unordered_map<std::string, rt::TimePoint> outdated;
    bool has(const std::string& name, rt::TimePoint now) const {
      const auto old = outdated.find(name);
      return names.contains(name) || (old != outdated.end() && now < old->second);
    }
    void count() { share.set(names.size() + outdated.size()); }
    rt::TimePoint expires;
    rt::TimePoint proves_absence_until;
    rt::Duration took{};
    bool refreshed = false;
  };
  struct Entry {
    std::optional<Attr> attr;
    rt::TimePoint attr_expires;
    std::uint32_t last_links = 0;  // survives attr: only listings tell it
    std::optional<rt::TimePoint> absent_until;
    std::optional<Listing> listing;
    std::optional<std::string> target;
    rt::TimePoint target_expires;
    Ticket changed_at = 0;
    /// Of a directory: the names that were made here lately, for answers to listings that were under way.
    std::vector<std::pair<Ticket, std::string>> made;
    Ticket listing_floor = 0;  ///< listings asked for before it are not kept
    rt::TimePoint permissions_expire;
    std::optional<Owner> creation;
    bool writable = false;
    Attr last_permissions;  // mode, uid and gid when they were last known: the two proofs above hold for them
    std::list<std::string>::iterator age;
  };

  Entry* find(const std::string& path);
  Entry& touch(const std::string& path);
  /// The entry to store an answer in, or nothing if it was changed since `asked`.
  Entry* accept(const std::string& path, Ticket asked);
  void set_attr(Entry& entry, const Attr& attr);
  Listing* parent_listing(const std::string& path);
  void note_made(Entry& directory, const std::string& name);
  void evict();
  void evict_listings();
  void keep_outdated(const std::string& path, const Listing& before, Listing& listing) const;
  /// The name is in its directory, as far as its listing is known.
  void add_to_listing(const std::string& path, FileType type);
  void take_from_listing(const std::string& path);

  rt::Loop& loop_;
  NameCacheOptions options_;
  std::size_t listed_names_ = 0;  // before entries_, whose listings count down
  struct Listed {
    std::string directory;
    std::uint64_t number;
  };
  std::deque<Listed> listed_;  // the oldest first; some are forgotten or replaced by now
  std::uint64_t last_listing_ = 0;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> ages_;  // front: least recently used
  Ticket sequence_ = 1;
  Ticket floor_ = 0;  // answers asked for before it are not kept at all
};

}  // namespace ply::cache
