package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

var errSize = errors.New("expected a number of bytes above 0, or one with KiB, MiB, GiB, kB, MB or GB")

// suffixes are the factors behind a number of bytes.
func suffixes() map[string]float64 {
	return map[string]float64{"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 1e3, "mb": 1e6, "gb": 1e9}
}

// parseSize reads a number of bytes such as 4096, 512MiB or 1.5 GB.
func parseSize(s string) (int64, error) {
	s = strings.TrimSpace(s)
	end := strings.LastIndexAny(s, "0123456789.") + 1
	n, err := strconv.ParseFloat(s[:end], 64)
	unit, ok := suffixes()[strings.ToLower(strings.TrimSpace(s[end:]))]
	if err != nil || !ok || !(n*unit >= 1 && n*unit < math.MaxInt64) {
		return 0, errSize
	}
	return int64(n * unit), nil
}
