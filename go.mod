module github.com/millstream-io/millstream

go 1.26.8

require (
	github.com/cockroachdb/datadriven v1.0.3 // scenario and golden tests as readable text files
	github.com/expr-lang/expr v1.17.8 // the expression language of pipelines, type-checked and bounded
	github.com/fsnotify/fsnotify v1.10.1 // dev notices changed files without polling
	github.com/go-jose/go-jose/v4 v4.1.9 // signed tokens and key sets of OAUTHBEARER, checked with allowed algorithms only
	github.com/goccy/go-yaml v1.19.2 // renders YAML syntax errors with the place and the line
	github.com/google/uuid v1.6.0 // topic, directory, cluster and member ids
	github.com/hashicorp/go-hclog v1.6.3 // the logger go-plugin asks for; bridged to slog
	github.com/hashicorp/go-plugin v1.8.0 // operators and connectors as subprocesses over gRPC
	github.com/klauspost/compress v1.20.4 // gzip, snappy and zstd of record batches, fast and bounded
	github.com/pierrec/lz4/v4 v4.1.33 // LZ4 frames of record batches
	github.com/prometheus/client_golang v1.25.0 // what /metrics says of Go and the process; its lint
	github.com/prometheus/client_model v0.6.3 // what tests read of /metrics
	github.com/prometheus/common v0.72.0 // the text format that goes with it
	github.com/schollz/progressbar/v3 v3.19.1 // progress bars on a terminal
	github.com/spf13/cobra v1.10.2 // the command tree, help and completion
	github.com/spf13/pflag v1.0.10 // the errors of cobra's flags, told in our words
	github.com/spf13/viper v1.21.0 // settings from flags, environment and files
	github.com/stretchr/testify v1.12.1 // assertions that stop a test and show the difference
	github.com/twmb/franz-go v1.22.3 // the Kafka client of the streams layer, the command line and the tests
	github.com/twmb/franz-go/pkg/kadm v1.20.0 // Kafka administration: topics, groups, offsets
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // the generated codec of every Kafka request and response
	github.com/zeebo/xxh3 v1.1.0 // fast hashes: the hash function of pipelines, fingerprints of records
	go.etcd.io/bbolt v1.5.0 // local state of tasks: ordered keys, atomic commits, one file
	go.etcd.io/raft/v3 v3.7.0 // the controller's consensus, without clock, disk or socket inside
	go.uber.org/goleak v1.3.0 // tests that fail when a goroutine is left behind
	go.yaml.in/yaml/v4 v4.0.0 // YAML nodes with line and column
	golang.org/x/sync v0.24.0 // errgroup: parts that run together and stop together
	golang.org/x/sys v0.50.0 // fallocate, fdatasync, flock, sendfile and process attributes
	golang.org/x/term v0.48.0 // tells a terminal from a pipe
	google.golang.org/grpc v1.85.0 // the transport of the plugin protocol
	google.golang.org/protobuf v1.36.12 // the messages of the plugin protocol
	pgregory.net/rapid v1.3.0 // property and state-machine tests that shrink
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fatih/color v1.13.0 // indirect
	github.com/go-viper/mapstructure/v2 v2.4.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/oklog/run v1.1.0 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/sagikazarmark/locafero v0.11.0 // indirect
	github.com/sourcegraph/conc v0.3.1-0.20240121214520-5f936abd7ae8 // indirect
	github.com/spf13/afero v1.15.0 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/subosito/gotenv v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.2 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

tool (
	golang.org/x/perf/cmd/benchstat
	google.golang.org/grpc/cmd/protoc-gen-go-grpc
	google.golang.org/protobuf/cmd/protoc-gen-go
	honnef.co/go/tools/cmd/staticcheck
)
