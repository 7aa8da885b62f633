.PHONY: test bench bench-flow lock i18n

test:
	./test

bench:
	sh scripts/setup.sh dev
	.venv/bin/python -P scripts/bench.py

bench-flow:
	sh scripts/setup.sh dev
	.venv/bin/python -P scripts/bench_flow.py

lock:
	scripts/lock

i18n:
	sh scripts/setup.sh dev
	.venv/bin/python -P scripts/i18n.py
