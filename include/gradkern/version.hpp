#ifndef GRADKERN_VERSION_HPP
#define GRADKERN_VERSION_HPP

/// \file
/// \brief The version of the library; the build files read these three lines.

/// First number of the version.
#define GRADKERN_VERSION_MAJOR 0
/// Second number.
#define GRADKERN_VERSION_MINOR 1
/// Third number.
#define GRADKERN_VERSION_PATCH 0

/// \brief The version as one number that grows, for use in `#if`: 10203 is version 1.2.3.
#define GRADKERN_VERSION (GRADKERN_VERSION_MAJOR * 10000 + GRADKERN_VERSION_MINOR * 100 + GRADKERN_VERSION_PATCH)

#endif  // GRADKERN_VERSION_HPP
