// SPDX-License-Identifier: BSL-1.0
/// @file
/// `disk_cache`: compiled kernels in a folder, one file each, found by a hash of all that made them. A file is believed
/// only if its key is the very key asked for and its checksum holds; otherwise it is as good as absent. That finds
/// damage, not malice: whoever may write the folder may choose what runs on the device.
#pragma once

#include <echo/config.hpp>

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace echo::cuda::jit {

/// FNV-1a in 64 bits, from any start.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u) noexcept {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

/// Thrown by nothing: a cache that cannot be read or written only makes its user compile again.
class disk_cache {
public:
    /// An empty folder's name: nothing is kept.
    explicit disk_cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    /// $XDG_CACHE_HOME/echo/jit, or ~/.cache/echo/jit; empty where neither is known.
    static std::filesystem::path default_folder() {
        if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
            return std::filesystem::path(cache) / "echo" / "jit";
        if (const char* home = std::getenv("HOME"); home && *home == '/')
            return std::filesystem::path(home) / ".cache" / "echo" / "jit";
        return {};
    }

    /// Where files are kept; empty: nowhere.
    const std::filesystem::path& folder() const noexcept { return folder_; }

    /// The file of a key: 32 digits of two hashes.
    std::filesystem::path file_of(std::string_view key) const {
        char name[48];
        std::snprintf(name, sizeof name, "%016llx%016llx.bin", static_cast<unsigned long long>(hash_of(key)),
                      static_cast<unsigned long long>(hash_of(key, 0x9e3779b97f4a7c15u)));
        return folder_ / name;
    }

    /// What was found under a key.
    enum class outcome : std::uint8_t {
        found,  ///< what was kept
        absent, ///< nothing
        damaged ///< there is a file, but it is cut, changed, or another key's
    };

    /// The bytes kept under the key. `damaged`: there is a file, but it is cut, changed, or another key's.
    std::pair<outcome, std::string> load(std::string_view key) const {
        if (folder_.empty()) return {outcome::absent, {}};
        const auto file = file_of(key);
        std::error_code code;
        const auto status = std::filesystem::status(file, code);
        if (!std::filesystem::exists(status)) return {outcome::absent, {}};
        if (!std::filesystem::is_regular_file(status)) return {outcome::damaged, {}};
        std::ifstream in(file, std::ios::binary);
        if (!in) return {outcome::absent, {}};
        std::string all;
        for (char part[4096]; in.read(part, sizeof part), in.gcount() > 0;)
            all.append(part, static_cast<std::size_t>(in.gcount()));
        header h;
        if (all.size() < sizeof h) return {outcome::damaged, {}};
        std::memcpy(&h, all.data(), sizeof h);
        const std::string_view rest = std::string_view(all).substr(sizeof h);
        if (std::memcmp(h.magic, magic, sizeof magic) != 0 || h.key_bytes != key.size() ||
            h.key_bytes > rest.size() || h.bytes != rest.size() - h.key_bytes ||
            h.checksum != hash_of(rest) || rest.substr(0, key.size()) != key)
            return {outcome::damaged, {}};
        return {outcome::found, std::string(rest.substr(key.size()))};
    }

    /// Keeps the bytes: written beside and renamed, so that no reader sees a part. Returns whether they are kept.
    bool store(std::string_view key, std::string_view bytes) const {
        if (folder_.empty()) return false;
        std::error_code code;
        std::filesystem::create_directories(folder_, code);
        static std::atomic<unsigned> count{0};
        const auto final_name = file_of(key);
        auto beside = final_name;
        beside += "." + std::to_string(getpid()) + "." + std::to_string(count++);
        header h{};
        std::memcpy(h.magic, magic, sizeof magic);
        h.key_bytes = key.size();
        h.bytes = bytes.size();
        h.checksum = hash_of(bytes, hash_of(key));
        bool written = false;
        {
            std::ofstream out(beside, std::ios::binary | std::ios::trunc);
            out.write(reinterpret_cast<const char*>(&h), sizeof h);
            out.write(key.data(), static_cast<std::streamsize>(key.size()));
            out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
            out.close();
            written = out.good();
        }
        if (written) std::filesystem::rename(beside, final_name, code);
        if (!written || code) {
            std::filesystem::remove(beside, code);
            return false;
        }
        return true;
    }

private:
    static constexpr char magic[8] = {'e', 'c', 'h', 'o', 'j', 'i', 't', '1'};
    struct header {
        char magic[8];
        std::uint64_t key_bytes, bytes, checksum;
    };

    std::filesystem::path folder_;
};

} // namespace echo::cuda::jit
