module github.com/rdmaloop/rdmaloop/examples/nvmeof

go 1.26

require (
	github.com/rdmaloop/rdmaloop v0.0.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/sys v0.36.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/rdmaloop/rdmaloop => ../..
