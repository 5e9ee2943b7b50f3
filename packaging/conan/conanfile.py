"""gradkern's headers as a package of Conan 2: `conan create packaging/conan -s compiler.cppstd=20`."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

REPOSITORY = os.path.join("..", "..")  # as seen from this file


class GradkernRecipe(ConanFile):
    name = "gradkern"
    description = "Gradients of pooling and convolution, header-only C++20"
    license = "MIT"
    topics = ("deep-learning", "convolution", "pooling", "simd", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"system_xsimd": [True, False]}  # xsimd of the system, not of Conan
    default_options = {"system_xsimd": False}
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, REPOSITORY, "include", "gradkern", "version.hpp"))
        self.version = ".".join(re.findall(r"#define GRADKERN_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", text))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, os.path.join(self.recipe_folder, REPOSITORY), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if not self.options.system_xsimd:
            self.requires("xsimd/[>=8.1.0 <15]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.settings.clear()  # headers are the same for all

    def generate(self):
        toolchain = CMakeToolchain(self)
        if not self.options.system_xsimd:
            toolchain.cache_variables["GRADKERN_XSIMD_INCLUDE_DIR"] = self.dependencies["xsimd"].cpp_info.includedir
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        # gradkern_target_arch; the package's own find script would look for another xsimd.
        arch = os.path.join("share", "cmake", "gradkern", "gradkern-arch.cmake")
        self.cpp_info.set_property("cmake_build_modules", [arch])
