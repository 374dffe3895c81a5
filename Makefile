# Everything but `run` and `test` is for those who change rlock. `make` alone lists it all.

GO ?= go
TIMEOUT ?= 8m
SOAK ?= 60s
FUZZTIME ?= 30s
# Modules of their own, beside the root: what only they need stays out of it.
MODULES = interop bench torture
LINT ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.PHONY: run
run: ## run the quickstart, on an embedded Redis or on REDIS_URL
	$(GO) run ./examples/quickstart

.PHONY: test
test: ## run the tests; those that need a redis-server skip where there is none
	@command -v redis-server >/dev/null || echo "There is no redis-server here: the tests that need one skip."
	$(GO) test -timeout $(TIMEOUT) -parallel 8 ./...

.PHONY: race
race: ## run the tests with the race detector
	$(GO) test -race -shuffle=on -timeout $(TIMEOUT) -parallel 8 ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, 30s if not said otherwise, all side by side
	$(GO) test -list '^Fuzz' . | grep '^Fuzz' | \
		xargs -P 4 -I{} $(GO) test -run '^$$' -fuzz '^{}$$' -fuzztime $(FUZZTIME) -parallel 1 .

.PHONY: interop
interop: ## run rlock and Redisson (Java) on one server; needs a redis-server, a JDK 17 and Maven, or skips
	@for need in java mvn redis-server; do command -v $$need >/dev/null || echo "There is no $$need here: the tests skip."; done
	cd interop && $(GO) test $(FLAGS) -timeout $(TIMEOUT) -parallel 8 ./...
	cd interop && RLOCK_SOAK=$(SOAK) $(GO) test $(FLAGS) -count=1 -timeout 30m -v -run 'TestSoak' .

# Of the torture: SEED and SCENE of a run to repeat; TOPOLOGY (single, sentinel, cluster, red) and DURATION of a long one.
SEED ?= 0
DURATION ?= 0
.PHONY: torture
torture: ## break Redis, the network and processes on purpose, for 5 minutes, or as SEED, SCENE, TOPOLOGY and DURATION say
	cd torture && $(GO) test -count=1 -timeout 0 -v -run 'TestTorture$$' . \
		-seed $(SEED) -scene "$(SCENE)" -topology "$(TOPOLOGY)" -duration $(DURATION)

.PHONY: mutants
mutants: ## plant bugs in rlock, or only MUTANT, and see whether the torture finds them; half an hour
	cd torture && $(GO) test -count=1 -timeout 0 -v -run 'TestMutants$$' . -mutants $(or $(MUTANT),all)

.PHONY: bench
bench: ## measure rlock beside other libraries, in 10 minutes; writes docs/benchmarks.md
	cd bench && $(GO) run . -write ../docs

.PHONY: bench-check
bench-check: ## measure some of it briefly, and fail where rlock is much worse than bench/recorded.json says
	cd bench && $(GO) run . -check recorded.json -tolerance 0.6

.PHONY: lint
lint: ## run golangci-lint, with .golangci.yml
	$(GO) run $(LINT) run ./...
	for module in $(MODULES); do (cd $$module && $(GO) run $(LINT) run ./...) || exit; done

.PHONY: fmt
fmt: ## format the code as lint wants it
	$(GO) run $(LINT) fmt *.go internal examples
	for module in $(MODULES); do (cd $$module && $(GO) run $(LINT) fmt ./...) || exit; done

.PHONY: cover
cover: ## measure the coverage of the package, into coverage.html
	$(GO) test -timeout $(TIMEOUT) -parallel 8 -coverprofile=coverage.out . ./internal/...
	$(GO) tool cover -func=coverage.out | tail -n 1
	$(GO) tool cover -html=coverage.out -o coverage.html

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	$(GO) mod verify
	for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff && $(GO) mod verify) || exit; done

.PHONY: figures
figures: ## measure the figures that the documents quote, in 20 minutes; needs a redis-server
	RLOCK_FIGURES=1 $(GO) test -count=1 -timeout 40m -v -run 'TestFigure' .

.PHONY: leaks
leaks: ## make a million acquisitions, and look what is left of them, in 5 minutes; needs a redis-server
	RLOCK_LEAKS=1000000 $(GO) test -count=1 -timeout 30m -v -run 'TestNothingLeaks' .

.PHONY: figures-redisson
figures-redisson: ## measure Redisson side by side, for docs/interop.md; needs what interop needs
	cd interop && RLOCK_FIGURES=1 $(GO) test -count=1 -timeout 15m -v -run 'TestFigure' .
