# SPDX-License-Identifier: BSL-1.0
"""Echo for Conan 2: `conan create packaging/conan`, from a checkout.

The headers alone; Conan's own files are what CMake and pkg-config find them by. Boost's headers
come as a dependency, unless `-o "echo/*:boost=False"` says that they are there already, or that
nothing needs them (op_traits.hpp, the vocabularies and graph/boost.hpp do).
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load


class Echo(ConanFile):
    name = "echo"
    description = "A memory optimiser for the training graphs of neural networks"
    license = "BSL-1.0"
    topics = ("training", "memory", "recomputation", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"boost": [True, False]}
    default_options = {"boost": True}
    no_copy_source = True

    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        text = load(self, os.path.join(self._root(), "include", "echo", "version.hpp"))
        self.version = ".".join(re.findall(r"#define ECHO_VERSION_\w+ (\d+)", text))

    def export_sources(self):
        copy(self, "LICENSE", self._root(), self.export_sources_folder)
        copy(self, "include/*", self._root(), self.export_sources_folder)

    def requirements(self):
        if self.options.boost:
            self.requires(
                "boost/[>=1.74 <2]", transitive_headers=True, options={"header_only": True}
            )

    def package_id(self):
        self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(
            self,
            "*",
            os.path.join(self.source_folder, "include"),
            os.path.join(self.package_folder, "include"),
        )

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "echo")
        self.cpp_info.set_property("cmake_target_name", "echo::echo")
        self.cpp_info.set_property("pkg_config_name", "echo")
