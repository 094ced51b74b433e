package plugin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/internal/dl"
)

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "backend/plugin")
}

// build compiles a plugin's source once, and skips where there is no compiler.
func build(t interface {
	Helper()
	Skip(...any)
	Fatalf(string, ...any)
}, source string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || !dl.Supported {
		t.Skip("a plugin cannot be built here")
	}
	dir, err := os.MkdirTemp("", "carve-plugin-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	out := filepath.Join(dir, filepath.Base(source)+".so")
	args := append([]string{"-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", ".", "-o", out, source}, flags...)
	if text, err := exec.Command(gcc, append(args, "-lm", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	return out
}

func TestAccelerator(t *testing.T) {
	path := build(t, "../../examples/plugin/accelerator.c")
	l, err := plugin.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func() backend.Backend {
		b, err := l.Open("tiny-npu", nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
