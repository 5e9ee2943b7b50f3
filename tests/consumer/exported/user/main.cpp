float parent_sum(const float* values);

int main() {
    const float values[4] = {1, 2, 3, 4};
    return parent_sum(values) == 10 ? 0 : 1;
}
