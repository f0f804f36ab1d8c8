# SPDX-License-Identifier: BSL-1.0
"""Echo for Conan 2: `conan create packaging/conan`, from a checkout.

The headers alone, or with `-o "echo/*:core=True"` echo::core as well; Conan's own files are what CMake and pkg-config find them by. Boost's headers
come as a dependency, unless `-o "echo/*:boost=False"` says that they are there already, or that
nothing needs them (op_traits.hpp, the vocabularies and graph/boost.hpp do).
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load


class Echo(ConanFile):
    name = "echo"
    description = "A memory optimiser for the training graphs of neural networks"
    license = "BSL-1.0"
    topics = ("training", "memory", "recomputation", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    options = {"boost": [True, False], "core": [True, False]}
    default_options = {"boost": True, "core": False}
    no_copy_source = True

    def configure(self):
        self.package_type = "static-library" if self.options.core else "header-library"

    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        text = load(self, os.path.join(self._root(), "include", "echo", "version.hpp"))
        self.version = ".".join(re.findall(r"#define ECHO_VERSION_\w+ (\d+)", text))

    def export_sources(self):
        copy(self, "LICENSE", self._root(), self.export_sources_folder)
        for part in ("CMakeLists.txt", "include/*", "src/*", "packaging/*"):
            copy(self, part, self._root(), self.export_sources_folder)

    def requirements(self):
        if self.options.boost:
            self.requires(
                "boost/[>=1.74 <2]", transitive_headers=True, options={"header_only": True}
            )

    def package_id(self):
        if not self.info.options.core:
            self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        if self.options.core:
            cmake = CMake(self)
            cmake.configure()
            cmake.build(target="echo-core")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(
            self,
            "*",
            os.path.join(self.source_folder, "include"),
            os.path.join(self.package_folder, "include"),
        )
        for library in ("*.a", "*.lib"):
            copy(self, library, self.build_folder, os.path.join(self.package_folder, "lib"), keep_path=False)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "echo")
        headers = self.cpp_info.components["echo"]
        headers.bindirs = []
        headers.libdirs = []
        headers.set_property("cmake_target_name", "echo::echo")
        headers.set_property("pkg_config_name", "echo")
        if self.options.boost:
            headers.requires = ["boost::headers"]
        if self.options.core:
            core = self.cpp_info.components["core"]
            core.libs = ["echo-core"]
            core.defines = ["ECHO_CORE"]
            core.requires = ["echo"]
            core.set_property("cmake_target_name", "echo::core")
