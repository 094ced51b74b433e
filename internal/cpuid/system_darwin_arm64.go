package cpuid

import "golang.org/x/sys/unix"

// system asks for features by the names that the system has for them since macOS 12; one that it does not know is an error, and absent.
func system() (f Features) {
	if has, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16"); err == nil && has != 0 {
		f |= BF16
	}
	return f
}
