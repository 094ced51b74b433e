package mkl

import "syscall"

func threadID() int { return syscall.Gettid() }
