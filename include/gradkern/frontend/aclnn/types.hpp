// The types of aclnn under its names: status codes, tensors and lists of integers (see ../aclnn.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace aclnn {

/// What every function returns: ACLNN_SUCCESS or an error code.
using aclnnStatus = std::int32_t;

inline constexpr aclnnStatus ACLNN_SUCCESS = 0;                         ///< done
inline constexpr aclnnStatus ACLNN_ERR_PARAM_NULLPTR = 161001;          ///< a pointer that must not be null
inline constexpr aclnnStatus ACLNN_ERR_PARAM_INVALID = 161002;          ///< any other mistake in the arguments
inline constexpr aclnnStatus ACLNN_ERR_RUNTIME_ERROR = 361001;          ///< phase 2 failed, with valid arguments
inline constexpr aclnnStatus ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101;  ///< no memory for an executor
inline constexpr aclnnStatus ACLNN_ERR_INNER_NULLPTR = 561103;          ///< never returned here

/// Element types. The operators accept ACL_FLOAT, ACL_FLOAT16 and ACL_BF16, and refuse the others. Any number of the original
/// may be cast to this type.
enum aclDataType : std::int32_t {
    ACL_DT_UNDEFINED = -1,  ///< none
    ACL_FLOAT = 0,          ///< f32
    ACL_FLOAT16 = 1,        ///< f16
    ACL_INT8 = 2,           ///< refused
    ACL_INT32 = 3,          ///< refused
    ACL_UINT8 = 4,          ///< refused
    ACL_INT64 = 9,          ///< refused
    ACL_DOUBLE = 11,        ///< refused
    ACL_BOOL = 12,          ///< refused
    ACL_BF16 = 27           ///< bf16
};

/// Format tags. The operators accept ACL_FORMAT_NCHW and ACL_FORMAT_NCL, and refuse the others. Any number of the original
/// may be cast to this type.
enum aclFormat : std::int32_t {
    ACL_FORMAT_UNDEFINED = -1,  ///< none
    ACL_FORMAT_NCHW = 0,        ///< (N, C, H, W), or an image (C, H, W)
    ACL_FORMAT_NHWC = 1,        ///< refused
    ACL_FORMAT_ND = 2,          ///< refused
    ACL_FORMAT_NC1HWC0 = 3,     ///< refused
    ACL_FORMAT_NDHWC = 27,      ///< refused
    ACL_FORMAT_NCDHW = 30,      ///< refused
    ACL_FORMAT_NC = 35,         ///< refused
    ACL_FORMAT_NCL = 47         ///< (C, H, W)
};

/// A view of memory, made by aclCreateTensor. Its members are the front end's own.
struct aclTensor {
    tensor_layout view{};                        ///< view dims and strides, strides in elements
    aclDataType data_type = ACL_DT_UNDEFINED;    ///< type of the elements
    aclFormat format = ACL_FORMAT_UNDEFINED;     ///< order of the axes
    std::int64_t offset = 0;                     ///< elements from `data` to the element with all indices 0
    static constexpr std::int64_t unknown = -1;  ///< for `storage`
    std::int64_t storage = unknown;              ///< elements of the memory
    void* data = nullptr;                        ///< first element of the memory
};

/// A short list of integers, made by aclCreateIntArray. Its members are the front end's own.
struct aclIntArray {
    extents values{};  ///< the first five, and their number
};

/// Describes a tensor; its memory is not read. Null if there is no memory for the description, or if a list has a length
/// but no address.
///
/// viewDims, viewDimsNum         sizes, viewDimsNum of them
/// dataType                      type of the elements
/// stride                        elements from one entry of an axis to the next, viewDimsNum of them; null: dense.
///                               Those of inputs may be 0 or negative
/// offset                        elements from tensorData to the element with all indices 0
/// format                        order of the axes; it is only a tag, strides give the addresses
/// storageDims, storageDimsNum   sizes of the memory at tensorData; their product bounds the view. Without them
///                               (0 sizes) the view is not checked
/// tensorData                    the memory, which must live until phase 2 has returned
[[nodiscard]] inline aclTensor* aclCreateTensor(const std::int64_t* viewDims, std::uint64_t viewDimsNum,
                                                aclDataType dataType, const std::int64_t* stride, std::int64_t offset,
                                                aclFormat format, const std::int64_t* storageDims,
                                                std::uint64_t storageDimsNum, void* tensorData) noexcept {
    if ((viewDims == nullptr && viewDimsNum != 0) || (storageDims == nullptr && storageDimsNum != 0)) return nullptr;
    auto* tensor = new (std::nothrow) aclTensor;
    if (tensor == nullptr) return nullptr;
    const auto list = [&](const std::int64_t* values) {
        return extents(std::span<const std::int64_t>(values, static_cast<std::size_t>(viewDimsNum)));
    };
    tensor->view.shape = list(viewDims);
    if (stride != nullptr) tensor->view.strides = list(stride);
    tensor->data_type = dataType;
    tensor->format = format;
    tensor->offset = offset;
    tensor->data = tensorData;
    if (storageDimsNum != 0) {
        const std::span<const std::int64_t> sizes(storageDims, static_cast<std::size_t>(storageDimsNum));
        shape::checked elements(1);
        for (const std::int64_t size : sizes) elements *= size;
        const bool none = std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size <= 0; });
        // A product beyond 63 bits bounds no view.
        tensor->storage = none ? 0 : elements.ok() ? elements.value() : (std::numeric_limits<std::int64_t>::max)();
    }
    return tensor;
}

/// Destroys a description, not the memory it describes; null is allowed. Executors planned from it stay valid.
inline aclnnStatus aclDestroyTensor(const aclTensor* tensor) noexcept {
    delete tensor;
    return ACLNN_SUCCESS;
}

/// Copies `size` integers. `size` may be 0; null if there is no memory, or if `value` is null and `size` is not 0.
[[nodiscard]] inline aclIntArray* aclCreateIntArray(const std::int64_t* value, std::uint64_t size) noexcept {
    if (value == nullptr && size != 0) return nullptr;
    auto* array = new (std::nothrow) aclIntArray;
    if (array != nullptr) array->values = extents(std::span<const std::int64_t>(value, static_cast<std::size_t>(size)));
    return array;
}

/// Destroys a list; null is allowed. Executors planned from it stay valid.
inline aclnnStatus aclDestroyIntArray(const aclIntArray* array) noexcept {
    delete array;
    return ACLNN_SUCCESS;
}

}  // namespace aclnn
GRADKERN_ISA_NAMESPACE_END
