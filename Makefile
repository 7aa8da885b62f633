.PHONY: test bench lock i18n

test:
	./test

bench:
	sh scripts/setup.sh dev
	.venv/bin/python -P scripts/bench.py

lock:
	scripts/lock

i18n:
	sh scripts/setup.sh dev
	.venv/bin/python -P scripts/i18n.py
