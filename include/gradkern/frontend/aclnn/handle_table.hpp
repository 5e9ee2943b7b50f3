// Handles that any thread may use after their object is destroyed, and with any bits: they are looked up, not dereferenced.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace aclnn {

namespace translation {

/// Objects by handle. A handle is the number of a slot, with the slot's generation in the upper bits. When a slot loses its
/// object, its generation is increased, so no handle ever refers to a second object. (A slot with no generations left is not
/// used again.) No handle is 0.
///
/// An object lives while it is in the table or borrowed. All functions may be called by many threads at once. The memory of
/// slots is never freed, about 24 bytes for each object that existed at the same time: a table is a static object, and stays
/// usable while other static objects are destroyed.
template <class Object, unsigned IndexBits, unsigned GenerationBits>
class handle_table {
    static constexpr unsigned first_bits = 6;  // blocks of 64, 128, 256 ... slots, which never move
    static_assert(IndexBits > first_bits && IndexBits + GenerationBits <= sizeof(std::uintptr_t) * 8);

    struct node {
        Object object;
        std::uint64_t users = 1;  // the table, and borrowers
        bool repeatable = false;
    };

public:
    /// The largest number of objects at one time.
    static constexpr std::uintptr_t capacity = (std::uintptr_t{1} << IndexBits) - (std::uintptr_t{1} << first_bits);

    /// An object that stays alive as long as this reference.
    class borrowed {
    public:
        borrowed(handle_table& table, node* n) noexcept : table_(&table), node_(n) {}
        borrowed(const borrowed&) = delete;
        borrowed& operator=(const borrowed&) = delete;
        ~borrowed() { table_->release(node_); }

        /// False if the handle was invalid.
        [[nodiscard]] explicit operator bool() const noexcept { return node_ != nullptr; }
        [[nodiscard]] const Object* operator->() const noexcept { return &node_->object; }

    private:
        handle_table* table_;
        node* node_;
    };

    /// Copies an object into the table. 0 if there is no memory or no free slot.
    [[nodiscard]] std::uintptr_t insert(const Object& object) noexcept {
        auto* n = new (std::nothrow) node{object};
        if (n == nullptr) return 0;
        {
            const std::lock_guard lock(mutex_);
            if (free_ != none || grow()) {
                const std::uintptr_t index = free_;
                slot& s = at(index);
                free_ = s.next_free;
                s.object = n;
                return s.generation << IndexBits | index;
            }
        }
        delete n;
        return 0;
    }

    /// The object, while the result lives.
    [[nodiscard]] borrowed borrow(std::uintptr_t handle) noexcept {
        const std::lock_guard lock(mutex_);
        slot* s = find(handle);
        if (s == nullptr) return {*this, nullptr};
        ++s->object->users;
        return {*this, s->object};
    }

    /// Keeps the object in the table when it is used. False if the handle is invalid.
    [[nodiscard]] bool set_repeatable(std::uintptr_t handle) noexcept {
        const std::lock_guard lock(mutex_);
        slot* s = find(handle);
        if (s != nullptr) s->object->repeatable = true;
        return s != nullptr;
    }

    /// Uses the object: one that is not repeatable leaves the table. False if the handle is invalid. So if many threads use
    /// such an object at once, only one of them gets true.
    [[nodiscard]] bool use(std::uintptr_t handle) noexcept { return take_out(handle, true); }

    /// Removes the object from the table. False if the handle is invalid.
    [[nodiscard]] bool remove(std::uintptr_t handle) noexcept { return take_out(handle, false); }

private:
    static constexpr std::uintptr_t none = ~std::uintptr_t{0};
    static constexpr std::uintptr_t last_generation = none >> (sizeof(std::uintptr_t) * 8 - GenerationBits);

    struct slot {
        std::uintptr_t generation = 1;
        node* object = nullptr;
        std::uintptr_t next_free = none;
    };

    [[nodiscard]] slot& at(std::uintptr_t index) const noexcept {
        const std::uintptr_t n = index + (std::uintptr_t{1} << first_bits);
        const auto block = static_cast<unsigned>(own::bit_width(n)) - 1 - first_bits;
        return blocks_[block][n - (std::uintptr_t{1} << (first_bits + block))];
    }

    [[nodiscard]] slot* find(std::uintptr_t handle) const noexcept {
        const std::uintptr_t index = handle & ((std::uintptr_t{1} << IndexBits) - 1);
        if (index >= slots_) return nullptr;
        slot& s = at(index);
        return s.object != nullptr && s.generation == handle >> IndexBits ? &s : nullptr;
    }

    [[nodiscard]] bool grow() noexcept {
        if (block_count_ == blocks_.size()) return false;
        const std::uintptr_t more = std::uintptr_t{1} << (first_bits + block_count_);
        slot* block = new (std::nothrow) slot[more];
        if (block == nullptr) return false;
        blocks_[block_count_++] = block;
        for (std::uintptr_t i = more; i-- > 0;) block[i].next_free = std::exchange(free_, slots_ + i);
        slots_ += more;
        return true;
    }

    [[nodiscard]] bool take_out(std::uintptr_t handle, bool unless_repeatable) noexcept {
        node* n = nullptr;
        {
            const std::lock_guard lock(mutex_);
            slot* s = find(handle);
            if (s == nullptr) return false;
            if (unless_repeatable && s->object->repeatable) return true;
            n = std::exchange(s->object, nullptr);
            if (s->generation != last_generation) {
                ++s->generation;
                s->next_free = std::exchange(free_, handle & ((std::uintptr_t{1} << IndexBits) - 1));
            }
        }
        release(n);
        return true;
    }

    void release(node* n) noexcept {
        if (n == nullptr) return;
        {
            const std::lock_guard lock(mutex_);
            if (--n->users != 0) return;
        }
        delete n;
    }

    std::mutex mutex_{};
    std::array<slot*, IndexBits - first_bits> blocks_{};
    std::size_t block_count_ = 0;
    std::uintptr_t slots_ = 0;
    std::uintptr_t free_ = none;
};

}  // namespace translation

}  // namespace aclnn
GRADKERN_ISA_NAMESPACE_END
