// SPDX-License-Identifier: BSL-1.0
/// @file
/// `report_folder`: DIR of `--report DIR`, with its one file. Where that does not come about, a folder that was not
/// there is not left behind.
#pragma once

#include "command_line/unfinished.hpp"
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
    explicit report_folder(const std::string& path) {
        const signals_wait until_made;
        std::error_code problem;
        if (std::filesystem::create_directory(path, problem)) made_.emplace(path, true);
        if (problem || !std::filesystem::is_directory(path, problem))
            throw file_error({}, path,
                             "cannot be a folder for the report" + (problem ? ": " + problem.message() : ""),
                             "name a folder, or one to be made in a folder that is there");
        file_.emplace(path + "/index.html");
    }

    /// Errors: the disk is full.
    void write(std::string_view page) {
        file_->write(page);
        file_->finish();
    }
    void commit() {
        file_->commit();
        if (made_) made_->keep();
    }

private:
    std::optional<unfinished> made_{}; ///< only a folder that was not there; it goes only while it is empty
    std::optional<output_file> file_{};
};

} // namespace echo::format
