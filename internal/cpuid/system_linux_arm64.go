package cpuid

import "golang.org/x/sys/unix"

// system reads the second word of the processor's features, of which package cpu does not know all.
func system() (f Features) {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2 and HWCAP2_BF16
	list, err := unix.Auxv()
	if err != nil { // of a Go that has no list
		return 0
	}
	for _, entry := range list {
		if entry[0] == hwcap2 && entry[1]&bf16 != 0 {
			f |= BF16
		}
	}
	return f
}
