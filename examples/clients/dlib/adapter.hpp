// What the adapter adds to dlib. Layers need nothing of it.
#pragma once

namespace gradkern_dlib {

/// Calls of dlib's convolutions and pools that gradkern computed.
long calls();

}  // namespace gradkern_dlib
