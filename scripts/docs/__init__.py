"""The parts of docs.py: what the reference pages are made from, and Sphinx's configuration.

    header.py             the declarations of include/ucudnn.h, with their comments
    c_reference.py        the page of the C interface
    python_reference.py   the page of the Python package
    command_reference.py  the page of the command
    conf.py               what Sphinx reads
"""
