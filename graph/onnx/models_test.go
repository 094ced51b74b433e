package onnx_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/onnx"
)

var _ = Describe("Load", func() {
	It("reads every model of ONNX's backend tests", func(ctx context.Context) {
		n := 0
		Expect(filepath.WalkDir(shared("onnx-backend-tests"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".onnx") {
				return err
			}
			m, err := onnx.Load(ctx, path, nil)
			if err != nil {
				AddReportEntry(err.Error())
				GinkgoWriter.Println(err)
				return nil
			}
			n++
			return m.Close()
		})).To(Succeed())
		GinkgoWriter.Println(n)
		Expect(n).To(BeNumerically(">", 1600))
	})
})
