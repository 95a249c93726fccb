"""KubeSchedulerConfiguration v1 and TandemConfiguration: text in, checked values out.

Start reading at ``loading.py``.
"""
