// SPDX-License-Identifier: BSL-1.0
/// @file
/// `report_folder`: DIR of `--report DIR`, with its one file. Where that does not come about, a folder that was not
/// there is not left behind.
#pragma once

#include "format/output_file.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace echo::format {

class report_folder {
public:
    /// Errors: the folder cannot be made, or the file in it.
    explicit report_folder(const std::string& path) : path_(path) {
        std::error_code problem;
        made_ = std::filesystem::create_directory(path_, problem);
        if (problem || !std::filesystem::is_directory(path_, problem))
            throw file_error({}, path,
                             "cannot be a folder for the report" + (problem ? ": " + problem.message() : ""),
                             "name a folder, or one to be made in a folder that is there");
        try {
            file_.emplace((path_ / "index.html").string());
        } catch (...) {
            remove();
            throw;
        }
    }
    ~report_folder() {
        file_.reset();
        remove();
    }
    report_folder(const report_folder&) = delete;
    report_folder& operator=(const report_folder&) = delete;

    /// Errors: the disk is full.
    void write(std::string_view page) {
        file_->write(page);
        file_->finish();
    }
    void commit() {
        file_->commit();
        made_ = false;
    }

private:
    /// Only a folder that was made here, and only while it is empty.
    void remove() noexcept {
        std::error_code ignored;
        if (made_) std::filesystem::remove(path_, ignored);
    }

    std::filesystem::path path_;
    bool made_ = false;
    std::optional<output_file> file_;
};

} // namespace echo::format
