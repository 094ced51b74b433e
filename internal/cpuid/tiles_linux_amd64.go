package cpuid

import "syscall"

// tilesAllowed asks for the permission to use the registers of AMX, and reports whether the process has it then. Linux grants it to the whole
// process, threads that there are included, since version 5.16; it refuses where a thread's stack for signals is too small.
func tilesAllowed() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
