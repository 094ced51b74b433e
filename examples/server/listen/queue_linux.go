package listen

import "golang.org/x/sys/unix"

// noOpening lets all segments of TCP pass but those that open connections: of SYN and ACK, in the header's byte 13, they have SYN alone.
var noOpening = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// refuse leaves new connections to a listening socket unanswered.
func refuse(fd uintptr) bool {
	return unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(noOpening)), Filter: &noOpening[0]}) == nil
}

// queues reports whether a listening socket has connections to accept.
func queues(fd uintptr) bool {
	of := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(of, 0)
	return err == nil && n > 0
}
