// Shows the progress of the training: a bar on a terminal, one line per epoch elsewhere.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace digits {

class progress {
public:
    progress(int epochs, int steps_per_epoch) : epochs_(epochs), steps_(steps_per_epoch) {}

    /// After `step` steps of `epoch`, which counts from 1.
    void step(int epoch, int step) {
        const auto now = clock::now();
        if (!terminal_ || now - drawn_ < std::chrono::milliseconds(50)) return;
        drawn_ = now;
        draw(epoch, (epoch - 1) * steps_ + step);
    }

    /// After an epoch. The losses are shown from now on.
    void epoch(int epoch, double train_loss, double test_loss) {
        train_loss_ = train_loss;
        test_loss_ = test_loss;
        if (terminal_) {
            draw(epoch, epoch * steps_);
            if (epoch == epochs_) std::puts("");
        } else {
            std::printf("epoch %3d/%d  train %.5f  test %.5f  %s left\n", epoch, epochs_, train_loss, test_loss,
                        time_left(epoch * steps_).c_str());
        }
        std::fflush(stdout);
    }

private:
    using clock = std::chrono::steady_clock;

    [[nodiscard]] std::string time_left(int done) const {
        const double spent = std::chrono::duration<double>(clock::now() - start_).count();
        const double left = spent * (epochs_ * steps_ - done) / done;
        const int seconds = static_cast<int>(left + 0.5);
        return seconds < 60 ? std::to_string(seconds) + " s"
                            : std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
    }

    void draw(int epoch, int done) {
        constexpr int width = 28;
        const int filled = width * done / (epochs_ * steps_);
        const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                                std::string(static_cast<std::size_t>(width - filled), '.');
        std::printf("\repoch %3d/%d [%s]", epoch, epochs_, bar.c_str());
        if (test_loss_ > 0) std::printf("  train %.5f  test %.5f", train_loss_, test_loss_);
        std::printf("  %s left\033[K", time_left(done).c_str());
        std::fflush(stdout);
    }

    int epochs_, steps_;
    bool terminal_ = isatty(STDOUT_FILENO) == 1;
    double train_loss_ = 0, test_loss_ = 0;
    clock::time_point start_ = clock::now(), drawn_{};
};

}  // namespace digits
