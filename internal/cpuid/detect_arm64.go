package cpuid

// detect returns ASIMD: Go runs on no arm64 processor without it.
func detect() Features { return ASIMD }
