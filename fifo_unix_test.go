//go:build unix

package carve_test

import (
	"syscall"

	. "github.com/onsi/gomega"
)

func makeFIFO(path string) { Expect(syscall.Mkfifo(path, 0o600)).To(Succeed()) }
