"""This machine's xsimd as a package of Conan: what a remote would serve."""

import os

from conan import ConanFile
from conan.tools.files import copy


class XsimdRecipe(ConanFile):
    name = "xsimd"
    package_type = "header-library"

    def package(self):
        copy(self, "xsimd/*", os.environ["XSIMD_DIRECTORY"], os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
