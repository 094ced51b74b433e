// Package zootest gives tests the model zoo: real architectures whose weights are regenerated from manifests, inputs that
// are described and not stored, and the outputs that another runtime computed for them. The zoo lies beside the repository,
// in ../shared/models; tests skip where it is absent.
//
// It also finds the other folders of ../shared that tests read, and the processor time that a test has used. It is for tests
// only.
package zootest
