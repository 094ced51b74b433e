//go:build !race

package cpu_test

// detectorShare is the part of random models that specs try: all of them.
const detectorShare = 1
