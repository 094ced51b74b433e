//go:build unix

package onnx_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/onnx"
)

var _ = Describe("a FIFO", func() {
	It("is refused as model and as external data, without waiting", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		fifo := filepath.Join(dir, "w.bin")
		Expect(syscall.Mkfifo(fifo, 0o600)).To(Succeed())
		_, err := onnx.Load(ctx, fifo, nil)
		Expect(err).To(MatchError(onnx.ErrNotRegular))
		path := filepath.Join(dir, "model.onnx")
		Expect(os.WriteFile(path, relu(initializer(external("w.bin"))), 0o600)).To(Succeed())
		_, err = onnx.Load(ctx, path, nil)
		Expect(err).To(MatchError(onnx.ErrExternalData))
		Expect(err).To(MatchError(onnx.ErrNotRegular))
		_, err = onnx.LoadFS(ctx, os.DirFS(dir), "model.onnx", nil)
		Expect(err).To(MatchError(onnx.ErrNotRegular))
	})
})
