//go:build !race

package cpu_test

// seedShare is the part of random models that specs try: all of them.
const seedShare = 1
