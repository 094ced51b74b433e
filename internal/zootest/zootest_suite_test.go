package zootest_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestZootest(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "zootest")
}
