# `run` and `test` are for users; all other targets are for contributors. `make` alone lists the targets.

GO ?= go
TIMEOUT ?= 8m
SOAK ?= 60s
FUZZTIME ?= 30s
# These directories are modules of their own, so the root does not depend on what only they need.
MODULES = interop bench torture simulation rlockrueidis rlockvalkey rlockotel rlockotel/dashboard cmd/rlock rlockcron rlocktest examples/jobs examples/cron examples/asynq rlockvet
# The packages of go.work, which a tool analyzes at once, and the modules that have a go.work of their own.
APART = bench rlockotel/dashboard
WORKSPACE = ./... $(patsubst %,./%/...,$(filter-out $(APART),$(MODULES)))
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# Newer versions need a newer Go.
GORELEASER ?= github.com/goreleaser/goreleaser/v2@v2.15.1
LINT ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
LINTER ?= $(GO) run $(LINT)
# The flags of tests that the race detector watches.
RACE ?= -race

# DRIVER=rueidis, and DRIVER=valkey, have test, race, interop and torture use that library where rlock uses go-redis.
DRIVER ?= go-redis
ifeq ($(filter go-redis rueidis valkey,$(DRIVER)),)
$(error DRIVER is go-redis, rueidis or valkey, not "$(DRIVER)")
endif
ifneq ($(DRIVER),go-redis)
SUITES := $(CURDIR)/rlock$(DRIVER)/internal/suites
$(shell printf '{"Replace": {"%s": "%s"}}' $(CURDIR)/internal/testkit/connect/connect.go $(SUITES)/connect.go >$(SUITES)/overlay.json)
export GOWORK := $(SUITES)/go.work
export GOFLAGS := $(GOFLAGS) -overlay=$(SUITES)/overlay.json
endif

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

.PHONY: run
run: ## run the quickstart with an embedded Redis, or with the one at REDIS_URL
	$(GO) run ./examples/quickstart

.PHONY: demo
demo: ## show a ticket office at work in your browser, without a Redis: it is rlock demo
	cd cmd/rlock && $(GO) run . demo

# The seed of each test in virtual time, and the first seed of `make sim`. 0 draws them.
FIRST ?= 0

# These suites run in virtual time, and on real servers only those of their tests that need one. Another driver knows no virtual time: all of
# them run on real servers, and start first, so that the rest runs beside them.
SUITES_IN_VIRTUAL_TIME = . ./internal/suites/trouble ./internal/suites/claims ./internal/suites/contract
ifeq ($(DRIVER),go-redis)
virtual = cd simulation && $(GO) run ./suites -seed $(FIRST) $(1) $(addprefix .,$(SUITES_IN_VIRTUAL_TIME))
else
virtual = true
first = $(SUITES_IN_VIRTUAL_TIME)
endif
# others are the packages without the root and those below internal that the grep expression $(1) matches.
others = $(first) $$($(GO) list ./... | grep -vxE '[^/]+/[^/]+/[^/]+|.*/internal/($(1))')

.PHONY: test
test: ## run the tests; tests that need a redis-server are skipped if none is installed
	@command -v redis-server >/dev/null || echo "redis-server is not installed: the tests that need it are skipped."
	$(call virtual)
	$(GO) test -timeout $(TIMEOUT) -parallel 8 $(call others,suites/(trouble|claims|contract))

.PHONY: rueidis
rueidis: ## test rlockrueidis and rlockvalkey, and on rueidis every claim for every kind and a scene of the torture; DRIVER=rueidis runs all suites on it
	cd rlockrueidis && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./... # Go would not notice a change of a document, whose code it runs
	cd rlockvalkey && $(GO) test -count=1 -timeout $(TIMEOUT) ./... # Go would not notice a change of rlockrueidis
	$(MAKE) conformance torture DRIVER=rueidis SCENE=safe BRIEF=1

.PHONY: observers
observers: ## test rlockotel, its dashboard and its alerts
	cd rlockotel && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./... # as for rlockrueidis
	cd rlockotel/dashboard && $(GO) test -count=1 -timeout $(TIMEOUT) ./... # Go would not notice a change of docs/grafana

.PHONY: kits
kits: ## test rlocktest, and rlockcron with gocron and its example
	cd rlocktest && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./... # as for rlockrueidis
	cd rlockcron && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./...
	cd examples/cron && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./...

.PHONY: jobs
jobs: ## test examples/jobs and examples/asynq, and the statements of the guide to fencing; those on PostgreSQL are skipped if it is not installed
	@{ command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; } >/dev/null 2>&1 || echo "PostgreSQL is not installed: the tests that need it are skipped."
	cd examples/jobs && $(GO) test -count=1 -timeout $(TIMEOUT) -parallel 8 ./... # Go would not notice a change of the guide
	cd examples/asynq && $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./...

# By itself, rlockvet takes a third of the CPU that go vet takes with it: go vet has a process for each package, also for those of others.
.PHONY: rlockvet
rlockvet: ## test rlockvet, and run it over all modules, in which it must find nothing
	cd rlockvet && $(GO) test -timeout $(TIMEOUT) ./...
	dir=$$(mktemp -d) && trap "rm -r $$dir" EXIT && (cd rlockvet && $(GO) build -o $$dir/rlockvet .) && \
		export GOMEMLIMIT=4GiB && $$dir/rlockvet $(WORKSPACE) && for module in $(APART); do (cd $$module && $$dir/rlockvet ./...) || exit; done

.PHONY: command
command: ## test the command rlock; the tests of its page are skipped without chromium
	@command -v chromium >/dev/null || echo "chromium is not installed: the tests that need it are skipped."
	cd cmd/rlock && $(GO) test $(RACE) $(FLAGS) -timeout $(TIMEOUT) ./...

.PHONY: pictures
pictures: ## make the pictures of the documents, from a run of rlock demo; needs chromium
	cd cmd/rlock && RLOCK_SCREENSHOT=$(CURDIR)/docs/pictures $(GO) test -count=1 -run 'TestPictures$$' ./internal/page

.PHONY: conformance
conformance:
	$(GO) test -timeout $(TIMEOUT) -parallel 24 -run 'TestConformance|TestSentinel$$|TestCluster$$' ./internal/suites/claims ./internal/suites/trouble

# RLOCK_NO_REDIS skips every test that needs a redis-server; what is left runs on the embedded one, or on none.
.PHONY: quick
quick: ## run the tests that need no redis-server, in a few seconds; for use while editing
	RLOCK_NO_REDIS=1 $(GO) test -short -timeout 2m -parallel 16 $$($(GO) list . ./internal/... | grep -v /internal/suites/)
	cd simulation && $(GO) test -count=1 -run TestMutantsFit .
	cd simulation && $(GO) run . -seeds 100 -until 10s

.PHONY: race
race: ## run with the race detector what runs goroutines of rlock: not what looks at scripts, costs, pages or releases
	$(call virtual,-race $(FLAGS))
	$(GO) test -race -shuffle=on $(FLAGS) -timeout $(TIMEOUT) -parallel 8 \
		$(call others,wire|release|suites/(trouble|claims|contract|figures)|testkit/snippets)

# The units run with virtual clocks and fakes, or start their own servers. The claims that each kind must keep run on a server: for virtual time,
# Go would compile its runtime and all packages once more. The tests of the table run in one goroutine each, but for one test.
.PHONY: race-check
race-check: ## run with the race detector the tests of single packages, and the claims that each kind, group and semaphore must keep
	$(GO) test $(RACE) -shuffle=on -short -timeout $(TIMEOUT) -parallel 8 $$($(GO) list ./internal/... | grep -vE '/internal/(wire|release|suites|testkit|table)')
	$(GO) test $(RACE) -timeout $(TIMEOUT) -run 'TestTwoTablesLookAtTheOwnerOfAHold$$' ./internal/table
	$(GO) test $(RACE) -short -timeout $(TIMEOUT) -parallel 24 -run 'TestConformance|TestGroups|TestPermits|TestReaders' ./internal/suites/claims

# The directories that have fuzz targets.
FUZZED = $(sort $(dir $(shell grep -rl --include='*_test.go' '^func Fuzz' internal)))
.PHONY: fuzz
fuzz: ## run all fuzz targets in parallel, each for FUZZTIME (default 30s)
	for dir in $(FUZZED); do $(GO) test -list '^Fuzz' ./$$dir | grep '^Fuzz' | sed "s|$$| ./$$dir|"; done | \
		xargs -P 4 -n 2 sh -c '$(GO) test -run "^$$" -fuzz "^$$0$$" -fuzztime $(FUZZTIME) -parallel 1 $$1'

# A number of runs, because a fuzzer that a time ends may fail: golang/go#75804. So few runs gain nothing from what guides the fuzzer, for which
# Go compiles all packages once more.
.PHONY: fuzz-check
fuzz-check: ## run each fuzz target 2000 times
	@dir=$$(mktemp -d) && trap "rm -r $$dir" EXIT && for package in $(FUZZED); do \
		$(GO) test -c -o $$dir/fuzz.test ./$$package && for target in $$($$dir/fuzz.test -test.list '^Fuzz'); do echo $$package $$target && (cd $$package && \
			$$dir/fuzz.test -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime 2000x -test.fuzzcachedir $$dir/cache -test.parallel 2) || exit; \
		done || exit; done

.PHONY: interop
interop: ## test rlock together with Redisson (Java) on one server; skipped without redis-server, JDK 17 and Maven
	@for need in java mvn redis-server; do command -v $$need >/dev/null || echo "$$need is not installed: the tests are skipped."; done
	cd interop && $(GO) test $(FLAGS) -timeout $(TIMEOUT) -parallel 8 ./...
	cd interop && RLOCK_SOAK=$(SOAK) $(GO) test $(FLAGS) -count=1 -timeout 30m -v -run 'TestSoak|TestSemaphoreSoak|TestLatchSoak' .
	# The race detector would slow Go down, but not Java, beside which these measure Go's share.
	cd interop && RLOCK_SOAK=$(SOAK) $(GO) test -count=1 -timeout 30m -v -run 'TestFleetShares|TestFleetServes' .

# Parameters of torture: SEED and SCENE repeat a run; TOPOLOGY (single, sentinel, cluster) and DURATION make a long run; BRIEF=1 has each nemesis
# strike once.
SEED ?= 0
DURATION ?= 0
.PHONY: torture
torture: ## break real servers, connections and processes on purpose; 4 minutes, 1 with BRIEF=1, or as set by SEED, SCENE, TOPOLOGY, DURATION
	cd torture && $(GO) test -count=1 -timeout 0 -v -run 'TestTorture$$' . \
		-seed $(SEED) -scene "$(SCENE)" -topology "$(TOPOLOGY)" -duration $(DURATION) $(if $(BRIEF),-brief)

.PHONY: planted
planted: ## plant bugs in the lock table, or only MUTANT, each of which its model test must find; a minute
	$(GO) test -count=1 -timeout 20m -v -run 'TestPlantedBugs$$' ./internal/table -planted $(or $(MUTANT),all)

.PHONY: simulation
simulation: ## test the simulation, and compare its Redis with a real one
	cd simulation && $(GO) test -count=1 -timeout $(TIMEOUT) ./...

# Parameters of sim: DURATION of CPU, and at most WALL; SEED repeats a run; PAGE gets the rows of MUTANT; the others make a scene smaller, as a failure prints them.
.PHONY: sim
sim: ## play seeds of the simulation for a minute of CPU or DURATION, or SEEDS many, replay SEED with a log of every event, or hunt the planted bugs MUTANT: rlock, table, all, or names
	@cd simulation && $(GO) run . -seed $(SEED) -first $(FIRST) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(filter-out 0,$(DURATION)),-duration $(DURATION)) -mutant "$(MUTANT)" \
		$(if $(WALL),-wall $(WALL)) $(if $(PAGE),-page $(abspath $(PAGE))) -without "$(WITHOUT)" $(if $(UNTIL),-until $(UNTIL)) \
		-processes $(or $(PROCESSES),0) -workers $(or $(WORKERS),0) -schedule $(or $(SCHEDULE),0)

.PHONY: sim-cover
sim-cover: ## play seeds as `make sim` does, and print which statements of rlock they reach, and where the others are; SEEDS, DURATION, FIRST
	@cd simulation && $(GO) run . -cover -all -shrink 0 -first $(FIRST) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(filter-out 0,$(DURATION)),-duration $(DURATION)) $(if $(WALL),-wall $(WALL))

# Go replaces no file of a version in its module cache, so the version is copied to where golang.org/dl would put it.
OLDEST ?= go1.25.14
.PHONY: sim-oldest
sim-oldest: ## check on the oldest supported version of Go that a seed of the simulation decides everything; downloads it
	root=$$HOME/sdk/$(OLDEST); [ -x $$root/bin/go ] || { from=$$(GOTOOLCHAIN=$(OLDEST) $(GO) env GOROOT) && mkdir -p $$root && cp -r $$from/. $$root && chmod -R u+w $$root; } && \
		cd simulation && PATH=$$root/bin:$$PATH GOTOOLCHAIN=local go test -count=1 -timeout $(TIMEOUT) -v -run 'TestASeedDecidesEverything|TestLeaksAreFound|TestEveryEditFits' . ./internal/overlay

# The packages with tests in bubbles of testing/synctest.
BUBBLES = ./internal/clock ./internal/group ./internal/client ./internal/pubsub ./internal/task ./internal/transport ./internal/watchdog
COUNT ?= 10
.PHONY: schedules
schedules: ## run the tests in virtual time, each COUNT times, with drawn orders of goroutines; SCHEDULE repeats what was drawn
	@dir=$$(mktemp -d) && trap "rm -r $$dir" EXIT && overlay=$$($(MAKE) -s overlay DIR=$$dir) && \
		export RLOCK_SCHEDULE=$(or $(SCHEDULE),$$(date +%s)) && echo "SCHEDULE=$$RLOCK_SCHEDULE" && \
		RLOCK_NO_REDIS=1 $(GO) test -overlay $$overlay -short -cpu 1 -parallel 1 -count=$(COUNT) -timeout $(TIMEOUT) $(BUBBLES)

.PHONY: bench
bench: ## compare the speed of rlock and other libraries, and write docs/benchmarks.md; takes 35 minutes, and fewer for ONLY=S1,S2
	cd bench && $(GO) run . -write ../docs $(if $(ONLY),-only $(ONLY))

.PHONY: bench-check
bench-check: ## run a short part of the benchmark; fails if rlock is much slower than recorded in bench/recorded.json
	cd bench && $(GO) run . -check recorded.json -tolerance 0.6

.PHONY: freeze
freeze: ## run WHAT, such as "go test ./internal/client", on a machine that stands still for 50 to 500 ms every 3 s; Linux only
	$(GO) run ./internal/testkit/freeze sh -c '$(or $(WHAT),$(error WHAT is the command))'

# The changed runtime of the simulation, written to DIR. In it, a goroutine that waits for a mutex lets a bubble's clock go on, so it is for tests
# that have the process for themselves: beside others, a bubble looks as if it were in a deadlock.
.PHONY: overlay
overlay:
	@cd simulation && $(GO) run . -overlay $(DIR)

.PHONY: lint
lint: ## run golangci-lint with .golangci.yml
	$(LINTER) run $(WORKSPACE)
	for module in $(APART); do (cd $$module && $(LINTER) run ./...) || exit; done

.PHONY: fmt
fmt: ## format the code as the linters require
	$(LINTER) fmt

.PHONY: cover
cover: ## measure the coverage, and write coverage.html
	$(GO) test -timeout $(TIMEOUT) -parallel 8 -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1
	$(GO) tool cover -html=coverage.out -o coverage.html

.PHONY: tidy
tidy: ## make go.mod and go.sum of all modules tidy; go mod tidy cannot, because it asks for the release that is yet to come
	$(GO) run ./internal/release tidy

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum of a module is not tidy
	$(GO) run ./internal/release tidy-check

.PHONY: published
published: ## publish the working tree into a module proxy of files, and do what the pages tell a reader to type, in empty modules
	RLOCK_PUBLISHED=1 $(GO) test -count=1 -timeout 20m -run 'TestPublished' ./internal/release

.PHONY: release
release: ## prepare the release VERSION, such as v0.1.0: requirements, checks, and its tags, which you set and push yourself
	@$(GO) run ./internal/release prepare $(VERSION)

.PHONY: release-check
release-check: ## build the programs of a release for all platforms, into dist; releases nothing
	@dir=$$(mktemp -d) && trap "rm -r $$dir" EXIT && \
	if GOFLAGS= GOBIN=$$dir timeout 20m $(GO) install $(GORELEASER); then $$dir/goreleaser release --snapshot --clean; else \
		echo "goreleaser cannot be installed here: go build builds the programs, and .goreleaser.yaml is not tried"; \
		for platform in $(PLATFORMS); do echo $$platform; (cd cmd/rlock && CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} \
			$(GO) build -trimpath -o $(CURDIR)/dist/rlock_$${platform%/*}_$${platform#*/} .) || exit; done; \
	fi

.PHONY: release-programs
release-programs:
	$(GO) run $(GORELEASER) release --clean

.PHONY: figures
figures: ## measure the figures that the documents quote; takes 20 minutes and needs a redis-server
	RLOCK_FIGURES=1 $(GO) test -count=1 -timeout 40m -v -run 'TestFigure|TestManyHolds' ./internal/suites/figures

.PHONY: errors
errors: ## provoke every error, measure what methods return while Redis fails, and write docs/errors.md and the table of docs/guide/waiting.md; takes a minute
	$(GO) test -count=1 -timeout $(TIMEOUT) -run 'TestThePageHasEveryError|TestMeasured' ./internal/suites/contract -update

.PHONY: leaks
leaks: ## make a million acquisitions and check that nothing is left of them; takes 5 minutes and needs a redis-server
	RLOCK_LEAKS=1000000 $(GO) test -count=1 -timeout 30m -v -run 'TestNothingLeaks' ./internal/suites/figures

.PHONY: figures-redisson
figures-redisson: ## compare the speed of rlock and Redisson, for docs/interop.md; has the requirements of interop
	cd interop && RLOCK_FIGURES=1 $(GO) test -count=1 -timeout 15m -v -run 'TestFigure' .
