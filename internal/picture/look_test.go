package picture_test

import (
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = It("screenshots of the file of -report, light and dark", func() {
	if *shown == "" || *screenshots == "" {
		Skip("-report and -screenshots name no file and folder")
	}
	path, err := filepath.Abs(*shown)
	Expect(err).NotTo(HaveOccurred())
	name := strings.TrimSuffix(filepath.Base(path), ".html")
	for _, dark := range []bool{false, true} {
		b := browse("file://"+path, dark)
		theme := map[bool]string{false: "light", true: "dark"}[dark]
		for _, tab := range []string{"graph", "memory", "timeline", "nodes"} {
			b.click("#tab-" + tab)
			b.shot(name + "-" + tab + "-" + theme)
		}
		b.click("#tab-graph")
		b.eval(`document.querySelector('#graph').focus()`)
		for range 8 {
			b.key("n")
		}
		b.shot(name + "-node-" + theme)
		b.click("#fold")
		b.shot(name + "-folded-" + theme)
		b.click("#unfold")
		b.click("#fit")
		b.shot(name + "-fit-" + theme)
		Expect(b.faults).To(BeEmpty())
	}
})
