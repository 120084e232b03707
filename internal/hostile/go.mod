module github.com/rdmaloop/rdmaloop/internal/hostile

go 1.26

require (
	github.com/panjf2000/gnet/v2 v2.9.8
	github.com/rdmaloop/rdmaloop v0.0.0
	github.com/rdmaloop/rdmaloop/examples/nvmeof v0.0.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/sys v0.36.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sync v0.11.0 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/rdmaloop/rdmaloop => ../..
	github.com/rdmaloop/rdmaloop/examples/nvmeof => ../../examples/nvmeof
)
