// Package testshare gives specs that try random cases fewer of them where each takes long: CARVE_TEST_SHARE=4 is a quarter, on
// emulated processors and under the race detector. It is for tests only.
package testshare

import (
	"os"
	"strconv"
)

// Share is the number in the environment's CARVE_TEST_SHARE, 1 where there is none. It panics where that is no number from 1 on.
var Share = func() int {
	text := os.Getenv("CARVE_TEST_SHARE")
	if text == "" {
		return 1
	}
	share, err := strconv.Atoi(text)
	if err != nil || share < 1 {
		panic("CARVE_TEST_SHARE is a number from 1 on, not " + strconv.Quote(text))
	}
	return share
}()

// Of returns how many of n cases are tried: all, or one in Share, at least one of any.
func Of(n int) int { return (n + Share - 1) / Share }
