package picture_test

import (
	"flag"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// screenshots is where the specs that open a browser leave pictures of it, for people to look at.
var screenshots = flag.String("screenshots", "", "folder for screenshots of reports")

// shown is a report to be opened in the browser and left as screenshots of all its views.
var shown = flag.String("report", "", "HTML file of which to make screenshots")

func TestPicture(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // of a machine that does other things
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!/./"
	}
	RunSpecs(t, "picture", suite, reporter)
}
