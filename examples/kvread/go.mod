module github.com/rdmaloop/rdmaloop/examples/kvread

go 1.26

require (
	github.com/rdmaloop/rdmaloop v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/stretchr/testify v1.11.1
	golang.org/x/sys v0.45.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/rdmaloop/rdmaloop => ../..
