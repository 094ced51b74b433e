package backendtest_test

import (
	"errors"
	"testing"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/backend/reference"
)

func TestCPU(t *testing.T) {
	backendtest.Run(t, func() backend.Backend { return opened(t, cpu.Open) })
}

func TestReference(t *testing.T) {
	backendtest.Run(t, func() backend.Backend { return opened(t, reference.Open) })
}

func TestMKL(t *testing.T) {
	if _, err := mkl.Open(backend.Config{Name: "mkl"}); errors.Is(err, backend.ErrUnavailable) {
		t.Skip("no oneDNN here:", err)
	}
	backendtest.Run(t, func() backend.Backend { return opened(t, mkl.Open) })
}

func opened(t *testing.T, open backend.Driver) backend.Backend {
	t.Helper()
	b, err := open(backend.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
